// The survey of examples/c/survey.c, with the handles in RAII types and failures as exceptions.
#include <gpusched.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(sched_status_t status) {
    if (status != SCHED_OK) throw std::runtime_error(std::string(sched_status_name(status)) + ": " + sched_last_error());
}

struct Close {
    void operator()(sched_t *scheduler) const { sched_destroy(scheduler); }
    void operator()(sched_fd_model_t *model) const { sched_fd_model_destroy(model); }
};
using Scheduler = std::unique_ptr<sched_t, Close>;
using Model = std::unique_ptr<sched_fd_model_t, Close>;

// A struct of the library: zero is every default, its size says which version it is of.
template <class T> T make() {
    T fresh{};
    fresh.size = sizeof(T);
    return fresh;
}

constexpr std::size_t nx = 32, ny = 24, nz = 28, shots = 8;

Model make_model() {
    std::vector<float> vp(nx * ny * nz), rho(nx * ny * nz);
    for (std::size_t i = 0; i < vp.size(); i++) {
        vp[i] = i % nz < 14 ? 1800.0f : 2600.0f;
        rho[i] = i % nz < 14 ? 2000.0f : 2200.0f;
    }
    auto desc = make<sched_fd_model_desc_t>();
    desc.nx = nx, desc.ny = ny, desc.nz = nz;
    desc.dx_m = desc.dy_m = desc.dz_m = 10;
    desc.vp_m_s = vp.data(), desc.rho_kg_m3 = rho.data();
    sched_fd_model_t *made = nullptr;
    check(sched_fd_model_create(&desc, &made));
    return Model(made);
}

void survey(const char *path) {
    Model model = make_model();
    auto shot = make<sched_fd_shot_desc_t>();
    shot.nt = 120, shot.dt_s = 1e-3f, shot.frequency_hz = 25;
    shot.plane_iz = 3, shot.plane_every_x = shot.plane_every_y = 2;
    auto size = make<sched_fd_shot_size_t>();
    check(sched_fd_shot_size(model.get(), &shot, &size));

    std::vector<float> records(size.record_len * shots); // outlives the scheduler, which it is lent to
    sched_t *made = nullptr;
    check(sched_create(nullptr, &made));
    Scheduler scheduler(made);

    std::vector<sched_task_t> ids(shots);
    for (std::size_t i = 0; i < shots; i++) {
        shot.source = {2 + 4 * i, ny / 2, 2};
        shot.record = records.data() + i * size.record_len;
        shot.record_len = size.record_len;
        check(sched_fd_submit(scheduler.get(), model.get(), &shot, nullptr, &ids[i]));
    }
    for (auto id : ids) check(sched_wait(scheduler.get(), id, SCHED_FOREVER));

    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(records.data()), std::streamsize(records.size() * sizeof(float)));
    file.close();
    if (!file) throw std::runtime_error(std::string("cannot write ") + path);
    std::cout << shots << " shots of " << size.traces << " traces and " << size.samples << " samples\n";
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: %s RECORD.bin\n", argv[0]), 2;
    try {
        survey(argv[1]);
    } catch (const std::exception &error) {
        std::cerr << error.what() << "\n";
        return 1;
    }
}

// The survey of examples/c/survey.c: eight shots over two layers.
//
//   g++ -std=c++11 survey.cpp -lgpusched && ./a.out RECORD.bin
#include <gpusched.hpp>

#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t nx = 32, ny = 24, nz = 28, shots = 8;

gpusched::fd::model two_layers() {
  std::vector<float> vp(nx * ny * nz), rho(nx * ny * nz);
  for (std::size_t i = 0; i < vp.size(); i++) {
    vp[i] = i % nz < 14 ? 1800.0f : 2600.0f;
    rho[i] = i % nz < 14 ? 2000.0f : 2200.0f;
  }
  return gpusched::fd::model({nx, ny, nz, 10, 10, 10}, vp, rho);
}

void survey(const std::string &path) {
  const gpusched::fd::model model = two_layers();
  gpusched::fd::shot shot;
  shot.nt = 120, shot.dt_s = 1e-3f, shot.frequency_hz = 20;
  shot.plane_iz = 3, shot.plane_every_x = shot.plane_every_y = 2;

  gpusched::scheduler scheduler;
  std::vector<gpusched::task<gpusched::fd::gather>> tasks;
  for (std::uint64_t i = 0; i < shots; i++) {
    shot.source = {2 + 4 * i, ny / 2, 2};
    tasks.push_back(scheduler.submit_shot(model, shot));
  }

  std::ofstream file(path, std::ios::binary);
  gpusched::fd::gather gather;
  for (auto &task : tasks) {
    gather = task.get();
    file.write(reinterpret_cast<const char *>(gather.record.data()),
               static_cast<std::streamsize>(gather.record.size() * sizeof(float)));
  }
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
  std::cout << shots << " shots of " << gather.traces << " traces and " << gather.samples
            << " samples\n";
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: " << argv[0] << " RECORD.bin\n";
    return 2;
  }
  try {
    survey(argv[1]);
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}

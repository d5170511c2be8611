// Any callable as a task: get() returns its result, or throws its exception.
//
//   g++ -std=c++11 callbacks.cpp -lgpusched && ./a.out
#include <gpusched.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  gpusched::scheduler s;

  std::vector<gpusched::task<long>> parts;
  for (long part = 0; part < 16; part++) {
    parts.push_back(s.submit([part](const gpusched::exec &e) {
      std::vector<long> numbers(1000);
      std::iota(numbers.begin(), numbers.end(), 1000 * part);
      e.report(0.5);
      return std::accumulate(numbers.begin(), numbers.end(), 0L);
    }));
  }
  long sum = 0;
  for (auto &part : parts) sum += part.get();
  std::printf("sum of 0 to 15999: %ld\n", sum);

  gpusched::options twice;
  twice.label = "unlucky";
  twice.retries = 1;
  auto unlucky = s.submit(twice, [](const gpusched::exec &e) {
    if (e.attempt() > 2) return;
    throw std::runtime_error("no luck in attempt " + std::to_string(e.attempt()));
  });
  try {
    unlucky.wait();
  } catch (const std::runtime_error &why) {
    std::printf("%s\n", why.what());
  }
  return sum == 127992000 ? 0 : 1;
}

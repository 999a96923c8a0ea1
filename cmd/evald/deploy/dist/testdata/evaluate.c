// Loads the library and prints what two evaluators answer to four positions, as bits, so that systems can be compared.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
static void *load(const char *path) { return (void *)LoadLibraryA(path); }
static void *function(void *library, const char *name) { return (void *)GetProcAddress((HMODULE)library, name); }
#else
#include <dlfcn.h>
static void *load(const char *path) { return dlopen(path, RTLD_NOW); }
static void *function(void *library, const char *name) { return dlsym(library, name); }
#endif

int main(int argc, char **argv) {
  void *library = argc == 2 ? load(argv[1]) : NULL;
  if (!library) {
    printf("%s was not loaded\n", argv[1]);
    return 1;
  }
  typedef long long n;
  n (*call)(char *, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n) = function(library, "evald_call");

  static char error[2048];
#define EVALD(name, a, b, c, d, e, f, g, h, i) call(name, (n)(a), (n)(b), (n)(c), (n)(d), (n)(e), (n)(f), (n)(g), (n)(h), (n)(i), \
                                                   0LL, 0LL, 0LL, 0LL, 0LL, 0LL, 0LL, 0LL)
  long long shape[5], b = EVALD("board", "7x6x4", shape, error, 0, 0, 0, 0, 0, 0);
  printf("wrong rules: %lld %s\n", EVALD("board", "7x", shape, error, 0, 0, 0, 0, 0, 0), error);
  char *lines = "4453\n4\n445566\n-";
  uint64_t positions[4][4];
  float wdl[4][3], policy[4][7];
  unsigned char who[4];
  printf("parse: %lld\n", EVALD("parse", b, 4, lines, strlen(lines), positions, error, 0, 0, 0));
  char *evaluators[] = {"{\"backend\":\"bitsquares\"}", "{\"model\":\"default-fast\"}"};
  for (int i = 0; i < 2; i++) {
    long long e = EVALD("open", evaluators[i], error, 0, 0, 0, 0, 0, 0, 0);
    printf("%s: %lld\n", evaluators[i], e < 0 ? -1 : EVALD("evaluate", e, b, 4, positions, 0, wdl, policy, who, error));
    for (int row = 0; row < 4; row++) {
      for (int k = 0; k < 3; k++) printf("%a ", wdl[row][k]);
      for (int k = 0; k < 7; k++) printf("%a ", policy[row][k]);
      printf("%d\n", who[row]);
    }
  }
  return 0;
}

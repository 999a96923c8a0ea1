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
  long long (*board)(char *, long long *, char *) = function(library, "evald_board");
  long long (*open)(char *, char *) = function(library, "evald_open");
  int (*parse)(long long, long long, char *, long long, void *, char *) = function(library, "evald_parse");
  int (*evaluate)(long long, long long, long long, void *, void *, void *, void *, char *) = function(library, "evald_evaluate");

  static char error[2048];
  long long shape[5], b = board("7x6x4", shape, error);
  printf("wrong rules: %lld %s\n", board("7x", shape, error), error);
  char *lines = "4453\n4\n445566\n-";
  uint64_t positions[4][4];
  float wdl[4][3], policy[4][7];
  unsigned char who[4];
  printf("parse: %d\n", parse(b, 4, lines, strlen(lines), positions, error));
  char *evaluators[] = {"{\"backend\":\"bitsquares\"}", "{\"model\":\"default-fast\"}"};
  for (int i = 0; i < 2; i++) {
    long long e = open(evaluators[i], error);
    printf("%s: %d\n", evaluators[i], e < 0 ? -1 : evaluate(e, b, 4, positions, wdl, policy, who, error));
    for (int row = 0; row < 4; row++) {
      for (int k = 0; k < 3; k++) printf("%a ", wdl[row][k]);
      for (int k = 0; k < 7; k++) printf("%a ", policy[row][k]);
      printf("%d\n", who[row]);
    }
  }
  return 0;
}

//go:build cgo

package conv

// #include "train.h"
import "C"

import "github.com/evald/evald/kernels/cpu"

var vectorKernels = []kernels{inC(cpu.AVX512, &C.train_avx512), inC(cpu.AVX2, &C.train_avx2)}

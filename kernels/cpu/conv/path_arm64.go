//go:build cgo

package conv

// #include "train.h"
import "C"

import "github.com/evald/evald/kernels/cpu"

var vectorKernels = []kernels{inC(cpu.NEON, &C.train_neon)}

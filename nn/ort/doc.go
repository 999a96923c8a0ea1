// Package ort is an eval.Backend on ONNX Runtime, for networks of other programs, on CPUs, and on GPUs through CUDA, TensorRT and other
// providers. Users install the library with pip; evald opens it at run time and never downloads it. The caller's Codec interprets a
// network's inputs and outputs.
//
//	b, err := ort.New(ort.Model{Name: "theirs.onnx", Data: file}, codec, ort.Options{Provider: ort.CUDA})
//
// Read the files in this order:
//
//	codec.go                 Codec, Tensor, Buffer: a network's inputs and outputs
//	options.go               Options, the model's Signature, sizes of batches
//	find.go, library.go      where libraries are found, and errors for users; Library
//	provider.go, prove.go    providers and their dependencies; the proof that a provider works, with a model of onenode.go
//	session.go, backend.go   a session and the memory of its calls; New, Compute
//	shim.c, shim.h           all calls of the library, as functions for Go
//	none.go                  for builds that cannot open the library
//
// # Decisions
//
// The library's functions are called through a table that this package defines (shim.c). ONNX Runtime promises that its own table only
// grows, so a function's place never changes, and no header of that project is needed. Version 1.N of the library has API N; this package
// uses the newest API of the library. Tests passed on thirteen versions from 1.20.1 to 1.32.0.
//
// Batches are padded to 1, 8, 64, 256, 1,024 or 4,096 rows; larger ones are split. Each of these sizes has its own session, which is made
// on first use, because the library can prepare more if all sizes of a graph are fixed. The rows of the padding contain values of earlier
// calls. At most eight board sizes have sessions at a time. With Options.Batch there is only one batch size.
//
// Concurrency: on CPUs, a session runs as many calls at once as it has threads, each with its own memory, because a small batch has little
// work for several threads. On a GPU, a session runs one call while other calls fill or read their memory. When a session's last call ends,
// its threads stop spinning, because searches need the processors between calls.
//
// Inputs and outputs are values in main memory that are made once and passed to each run. With the library's bindings (IoBinding), an input
// would be copied to the GPU only when it is bound.
//
// Attributes().Invariant is false. On CPUs, no row depended on its batch, in the networks that were
// tried with thirteen versions of the library; but this depends on a model's operators, and package
// open refuses models whose rows depend on their batch by more than the last bits. On GPUs, the
// last bits of answers differ between batch sizes.
//
// A provider that does not work is not replaced: New fails, and its error names the missing dependency. The library decides for each
// operator where it runs: operators that CUDA lacks run on the CPU, and those that TensorRT lacks run on CUDA or the CPU.
//
// Native code reads the model, so an untrusted file is a risk. onnx.Read checks the file first, and rejects weights in other files and
// operators that are not built into the library. Then package open lets another process try the file, before this one opens it.
package ort

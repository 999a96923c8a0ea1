// Package ort is an eval.Backend on ONNX Runtime: networks of other programs, on CPUs, and on GPUs through CUDA, TensorRT and
// other providers. The library, which users install with pip, is opened at run time; evald never downloads it. The caller's Codec
// interprets a network's inputs and outputs.
//
//	b, err := ort.New(ort.Model{Name: "theirs.onnx", Data: file}, codec, ort.Options{Provider: ort.CUDA})
//
// Read the files in this order:
//
//	codec.go                 Codec, Tensor, Buffer: a network's inputs and outputs
//	options.go               Options, the model's Signature, sizes of batches
//	find.go, library.go      where libraries are found, and errors for users; Library, Inspect
//	provider.go, prove.go    providers and their dependencies; the proof that a provider works, with a model of onenode.go
//	session.go, backend.go   a session and the memory of its calls; New, Compute
//	shim.c, shim.h           all calls of the library, as functions for Go
//	none.go                  for builds that cannot open the library
//
// # Decisions
//
// The library's functions are called through a table of our own (shim.c). ONNX Runtime promises that its table only grows, so a
// function's place never changes, and no header of that project is needed. Version 1.N comes with API N; the library's newest API
// is used. Tests passed on thirteen versions from 1.20.1 to 1.32.0.
//
// Batches are padded to 1, 8, 64, 256, 1,024 or 4,096 rows; larger ones are split. Each of these sizes has its own session, made
// on first use, because the library prepares more if all sizes of a graph are fixed. The padding is rows of earlier calls. Eight
// board sizes have sessions at a time. Options.Batch leaves one batch size.
//
// Concurrency: on CPUs, a session runs up to one call per thread at once, each in its own memory, because a small batch has
// little work for several threads. On a GPU, a session runs one call while others fill or read their memory. A session's threads
// stop spinning when its last call ends, because searches need the processors between calls.
//
// Inputs and outputs are values in the processor's memory, made once and passed to each run. The library's bindings (IoBinding)
// would copy an input to the GPU only when it is bound.
//
// Attributes().Invariant is false. In the networks that were tried on CPUs, no row depended on its batch, on thirteen versions of
// the library; but that depends on a model's operators, and on GPUs, answers differ in their last bits between batch sizes.
//
// A provider that does not work is not replaced: New fails, and its error names the missing dependency. Operators that CUDA lacks
// run on the CPU; those that TensorRT lacks run on CUDA or the CPU. The library decides that for each operator.
//
// Native code reads the model, so an untrusted file is a risk. onnx.Read examines it first, and rejects weights in other files
// and operators that are not built into the library. Package open makes another process try the file before this one.
package ort

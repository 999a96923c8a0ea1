// Package ort is an eval.Backend on ONNX Runtime: networks of other programs, on CPUs, and on GPUs by CUDA, TensorRT and
// other providers. The library is opened while the program runs, as users have it from pip; evald never downloads it. What a
// network's inputs and outputs mean, the caller's Codec says.
//
//	b, err := ort.New(ort.Model{Name: "theirs.onnx", Data: file}, codec, ort.Options{Provider: ort.CUDA})
//
// Read the files in this order:
//
//	codec.go                 Codec, Tensor, Buffer: what a network takes and gives
//	options.go               Options, the model's Signature, sizes of batches
//	find.go, library.go      where libraries are, and what users read of errors; Library, Inspect
//	provider.go, prove.go    providers and what they need; a provider proves itself, with a model of onenode.go
//	session.go, backend.go   a session and the memory of its calls; New, Compute
//	shim.c, shim.h           all that calls the library, and what Go calls of it
//	none.go                  for builds that cannot open the library
//
// # Decisions
//
// The library's functions are called through a table of our own (shim.c). ONNX Runtime promises that its table only grows, so a
// function's place never changes, and a header of another project is not needed. Its API N comes with version 1.N; the newest that a library
// has is asked for. Tests passed on thirteen versions from 1.20.1 to 1.32.0.
//
// Batches are padded to 1, 8, 64, 256, 1,024 or 4,096 rows, and larger ones are split. Each of these sizes has a session of its own, made
// when it is first needed, because the library prepares more when all sizes of a graph are fixed. What pads a batch are rows of earlier calls.
// Eight sizes of boards have sessions at a time. Options.Batch leaves one size.
//
// Calls at once: on CPUs, as many calls of a session run as it has threads, each in memory of its own; a small batch has little
// work for several threads. On a GPU one call of a session runs, while another one fills or reads its memory. The threads of a
// session stop spinning when its last call ends, because searches need the processors between calls.
//
// Inputs and outputs are values in the processor's memory, made once and given to each run. The library's bindings (IoBinding)
// would copy an input to the GPU only when it is bound.
//
// Attributes().Invariant is false. Of the networks that were tried, no row depended on its batch on CPUs, on thirteen versions of the library; but
// that depends on the operators of a model, and on GPUs answers differ in their last bits between sizes of batches.
//
// Nothing replaces a provider that does not work: New fails, and its error says what is missing. Operators that CUDA lacks are computed
// on the CPU, and those that TensorRT lacks by CUDA or on the CPU; the library decides that for each operator.
//
// A model is read by native code, so a stranger's file is a risk. onnx.Read looks at it first, and refuses weights in other files and operators that the
// library has not itself. Package open lets another process try the file before this one.
package ort

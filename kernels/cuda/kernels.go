// Package cuda has the network's kernels for GPUs: CUDA C++ sources, the PTX that is built from them, and what the host must
// know to start them. Each kernel is the whole network in one launch. nn/gpu packs its weights and reads its answers.
//
//	device.h   what a kernel needs of the machine; each function is a few lines of PTX
//	sm90.h     what only Hopper has: products of warpgroups, bulk copies, barriers in shared memory
//	emu/       the same functions on the CPU, so that tests run the kernels' source without a GPU
//	board.h    Job (the kernels' argument), bitboards into planes
//	heads.h    pooling, the small layers, softmax, the answer
//	tower.h    the network in shared memory
//	tower*.cu  its kernels, for 64, 128 and 256 channels
//	hopper.h   the network on Hopper, on boards of at most 7 columns and 6 rows
//	hopper*.cu its kernels, for 64 and 128 channels
//	any.cu     the network in global memory: the kernel for all other shapes
//	build/     the program behind `make kernels`, which compiles them
//	ptx/       what it compiled
//
// LOG.md has the predictions and, as they come, the measurements.
//
// # Decisions
//
// What the tensor cores multiply and the residual stream are fp16, and all sums float32. Three bits more than bf16 has
// make answers five times more exact at the same speed, so that the residual stream needs no second copy in float32. What
// fp16 cannot hold, above 65504, is reported and never answered: a weight when a network is packed, an activation as
// NOT_FINITE. The shipped networks stay below 200.
//
// The kernels are tested on the CPU: what C++ cannot say stands behind a dozen small functions with a twin in emu, and there
// missing barriers and early reads go wrong every time. PTX is committed, with the hash of what it was compiled from, so that
// building needs no CUDA.
package cuda

import _ "embed"

//go:generate go run ./build

// Kernel is one entry point. Networks are padded with zeros to its number of channels.
type Kernel struct {
	Name     string // in PTX
	PTX      string // the module that has it; a driver compiles whole modules
	Arch     int    // the oldest architecture that runs it, by compute capability: 80 is sm_80
	Exact    bool   // no other architecture runs it; its weights are packed in tiles for products of warpgroups
	Channels int    // C; 0: any multiple of 16, in global memory
	Rows     int    // how many cells, of all boards together, a block of threads takes at a time
	Threads  int    // how many a block has
	Shared   int    // bytes of dynamic shared memory of a block; above 48 KiB the host must raise the function's limit first
	Chunk    int    // bytes of weights that are copied at a time
	Keep     int    // bytes of shared memory for what the heads keep: (2V + F + A) float32 for each board
}

var (
	//go:embed ptx/tower64.ptx
	tower64 string
	//go:embed ptx/tower128.ptx
	tower128 string
	//go:embed ptx/tower256.ptx
	tower256 string
	//go:embed ptx/hopper64.ptx
	hopper64 string
	//go:embed ptx/hopper128.ptx
	hopper128 string
	//go:embed ptx/any.ptx
	anySize string
)

// Kernels lists the kernels, the preferred ones first. Widths and sizes are those in tower*.cu. Those for Hopper are last, since
// no GPU has run them yet: they are used if they are asked for by name.
func Kernels() []Kernel {
	return []Kernel{
		tower("tower_64", tower64, 64, 8, 64, 4),
		tower("tower_64_half", tower64, 64, 4, 64, 2),
		tower("tower_128", tower128, 128, 8, 64, 2),
		tower("tower_128_half", tower128, 128, 4, 64, 2),
		tower("tower_256", tower256, 256, 8, 32, 2),
		tower("tower_256_half", tower256, 256, 4, 32, 2),
		{Name: "tower_any", PTX: anySize, Arch: arch, Rows: MaxCells, Threads: 256},
		hopper("hopper_64", hopper64, 64),
		hopper("hopper_128", hopper128, 128),
	}
}

// The largest board of the kernels for Hopper, and the bytes of a tile of weights: 16 inputs and 64 outputs in fp16.
const (
	HopperColumns, HopperRows = 7, 6
	HopperTile                = 2 * 16 * 64
)

// hopper mirrors Hopper in hopper.h. A board has room for x and t, in 8 slots a row; Keep is without them.
func hopper(name, ptx string, channels int) Kernel {
	const chunk = 3 * HopperTile
	stages := 5
	if channels == 128 {
		stages = 4
	}
	boards, board := 16*64/channels, 2*HopperRows*8*2*channels
	return Kernel{
		Name: name, PTX: ptx, Arch: 90, Exact: true, Channels: channels, Rows: boards * HopperRows * HopperColumns, Threads: 384,
		Shared: stages*(chunk+16) + boards*board, Chunk: chunk, Keep: board,
	}
}

// arch is the architecture that all other PTX is compiled for. It runs on every later one.
const arch = 80

// JobBytes is the size of Job in board.h, which is the only argument of a kernel.
const JobBytes = 88

// MaxCells is more than the cells of any board.
const MaxCells = 128

// tower mirrors Shape in tower.h.
func tower(name, ptx string, channels, warps, k, stages int) Kernel {
	rows := warps * 64 / (channels / 64)
	line := 2 * channels
	chunk := k * line
	return Kernel{
		Name: name, PTX: ptx, Arch: arch, Channels: channels, Rows: rows, Threads: 32 * warps,
		Shared: stages*chunk + 2*rows*line + line, Chunk: chunk, Keep: rows * line,
	}
}

// Package cuda has the network's kernels for GPUs: CUDA C++ sources, the PTX built from them, and the parameters for launching
// them. Each kernel is the whole network in one launch. nn/gpu packs its weights and reads its answers.
//
//	device.h     the GPU's instructions that kernels use; each function is a few lines of PTX
//	sm90.h       instructions of Hopper alone: products of warpgroups, bulk copies, barriers in shared memory, clusters of blocks
//	emu/         the same functions on the CPU, so that tests run the kernels' source without a GPU
//	board.h      Job (the kernels' argument), bitboards into planes
//	heads.h      pooling, the small layers, softmax, the answer
//	tower.h      the network in shared memory
//	wide.h       the same for a few boards, whose rows all warps share
//	tower*.cu    their kernels, for 64, 128 and 256 channels
//	hopper.h     the network on Hopper, on boards of at most 7 columns and 6 rows
//	hopper256.h  the same for 129 to 256 channels and any board
//	few.h        the network on Hopper for few boards, each of at most 64 cells with a column of zeros
//	hopper*.cu   their kernels, for 64, 128 and 256 channels
//	any.cu       the network in global memory: the kernel for all other shapes
//	build/       the program behind `make kernels`, which compiles them
//	ptx/         the compiled kernels
//	cubins.go    the kernels as machine code, for builds with the tag gpu
//
// Measured speed and accuracy are in LOG.md.
//
// # Decisions
//
// The inputs of products and the residual stream are fp16, all sums float32. Three more bits than bf16 make answers five times
// more accurate at the same speed, so that the residual stream needs no second copy in float32. Numbers that fp16 cannot hold,
// above 65504, are reported as errors: a weight when a network is packed, an activation as NOT_FINITE. The greatest activation
// found in a shipped network is 209.
//
// The kernels are tested on the CPU: small functions wrap the GPU-only instructions, and each has an emulation in emu, which
// detects missing barriers and early reads in every run. PTX is committed, with a hash of its sources, so that building needs no
// CUDA. So is machine code for the common architectures, because a driver takes seconds to compile a module, and in some
// containers lacks its compiler. All other architectures use the PTX.
package cuda

import (
	_ "embed"
	"fmt"
)

//go:generate go run ./build

// Kernel is one entry point. Networks are padded with zeros to its number of channels.
type Kernel struct {
	Name     string // of the entry point in PTX
	Module   string // that contains it and other kernels; a driver loads whole modules
	PTX      string // of the module, for drivers to compile; Cubin has the compiled form
	Arch     int    // the oldest architecture that it runs on, by compute capability: 80 is sm_80
	Exact    bool   // it runs on this architecture alone; its weights are packed in tiles for products of warpgroups
	Few      bool   // for few boards, see wide.h and few.h
	Channels int    // C; 0: any multiple of 16, in global memory
	Rows     int    // cells, of all boards together, that a block of threads computes at a time
	Threads  int    // threads per block
	Cluster  int    // blocks that share the outputs of the same boards; a grid consists of whole clusters; 1: no cluster
	Shared   int    // bytes of dynamic shared memory per block; above 48 KiB the host must raise the function's limit first
	Chunk    int    // bytes of weights per copy
	Keep     int    // bytes of shared memory for the heads' values: (2V + F + 2A + 3) float32 for each board
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
	//go:embed ptx/hopper256.ptx
	hopper256 string
	//go:embed ptx/tables.ptx
	tablesPTX string
	//go:embed ptx/any.ptx
	anySize string
)

// Kernels lists the kernels. Widths and sizes repeat those in the .cu files. If several kernels fit a network, the first one and
// its family (Kernel.Family) evaluate it, unless the kernel for Hopper was measured to be faster on the device.
func Kernels() []Kernel {
	return []Kernel{
		tower("tower_64", "tower64", tower64, 64, 8, 64, 4),
		tower("tower_64_half", "tower64", tower64, 64, 4, 64, 2),
		tower("tower_128", "tower128", tower128, 128, 8, 64, 2),
		tower("tower_128_half", "tower128", tower128, 128, 4, 64, 2),
		tower("tower_256", "tower256", tower256, 256, 8, 32, 2),
		tower("tower_256_half", "tower256", tower256, 256, 4, 32, 2),
		{Name: "tower_any", Module: "any", PTX: anySize, Arch: arch, Rows: MaxCells, Threads: 256, Cluster: 1},
		wide("wide_64", "tower64", tower64, 64, 2),
		wide("wide_128", "tower128", tower128, 128, 2),
		wide("wide_256", "tower256", tower256, 256, 4),
		hopper("hopper_64", "hopper64", hopper64, 64),
		hopper("hopper_128", "hopper128", hopper128, 128),
		hopperWide("hopper_256", "hopper256", hopper256),
		few("few_64", "hopper64", hopper64, 64, 4, 4, 24<<10),
		few("few_128", "hopper128", hopper128, 128, 4, 4, 12<<10),
		few("few_256", "hopper256", hopper256, 256, 1, 8, 16<<10),
	}
}

// Family identifies kernels that take the same packed weights and give the same bits, so that each batch may use any of them.
type Family struct {
	Channels int
	Exact    bool
}

// Family returns the kernel's family.
func (k Kernel) Family() Family { return Family{k.Channels, k.Exact} }

// The largest board of the kernels for Hopper, and the bytes of a tile of weights: 16 inputs and 64 outputs in fp16.
const (
	HopperColumns, HopperRows = 7, 6
	HopperTile                = 2 * 16 * 64
)

// hopper mirrors Hopper in hopper.h. A board has room for x and t, with 8 slots in each row. The outputs of
// the heads' convolution and the heads' values overwrite both.
func hopper(name, module, ptx string, channels int) Kernel {
	const chunk = 3 * HopperTile
	stages := 5
	if channels == 128 {
		stages = 4
	}
	boards, board := 16*64/channels, 2*HopperRows*8*2*channels
	return Kernel{
		Name: name, Module: module, PTX: ptx, Arch: 90, Exact: true, Channels: channels, Rows: boards * HopperRows * HopperColumns, Threads: 384, Cluster: 1,
		Shared: stages*(chunk+16) + boards*board, Chunk: chunk, Keep: board,
	}
}

// hopperWide mirrors Hopper256 in hopper256.h.
func hopperWide(name, module, ptx string) Kernel {
	const stages, rows, line, chunk = 6, 128, 2 * 256, 32 * 2 * 256
	return Kernel{
		Name: name, Module: module, PTX: ptx, Arch: 90, Exact: true, Channels: 256, Rows: rows, Threads: 384, Cluster: 1,
		Shared: stages*(chunk+16) + 2*rows*line + line, Chunk: chunk, Keep: rows * line,
	}
}

// FewRows is the number of rows of a board in few.h: its cells, and a cell of zeros after each row of the board. FewColumns is
// the maximum number of columns, for which there are enough zeros before and after.
const FewRows, FewColumns = 64, 8

// few mirrors Few in few.h.
func few(name, module, ptx string, channels, boards, stages, chunk int) Kernel {
	x := channels / 8 * 16 * (FewRows + 2*10)
	keep := x
	if channels == 64 {
		keep = 17 << 10
	}
	return Kernel{
		Name: name, Module: module, PTX: ptx, Arch: 90, Exact: true, Few: true, Channels: channels, Rows: boards * FewRows, Threads: 128*boards + 32,
		Cluster: channels / 64, Shared: stages*(chunk+16) + boards*(x+keep+24), Chunk: chunk, Keep: keep,
	}
}

// arch is the architecture for which all other PTX is compiled. It runs on every later one.
const arch = 80

// JobBytes is the size of Job in board.h, the only argument of a kernel.
const JobBytes = 88

// MaxCells exceeds the number of cells of any board.
const MaxCells = 128

// tower mirrors Shape in tower.h.
func tower(name, module, ptx string, channels, warps, k, stages int) Kernel {
	rows := warps * 64 / (channels / 64)
	line := 2 * channels
	chunk := k * line
	return Kernel{
		Name: name, Module: module, PTX: ptx, Arch: arch, Channels: channels, Rows: rows, Threads: 32 * warps, Cluster: 1,
		Shared: stages*chunk + 2*rows*line + line, Chunk: chunk, Keep: rows * line,
	}
}

// wide mirrors Wide in wide.h, whose DEPTH is 16: a warp computes 3 x n tiles of 16 x 8 outputs.
func wide(name, module, ptx string, channels, n int) Kernel {
	warps, rows, line := channels/(8*n), 16*3, 2*channels
	return Kernel{
		Name: name, Module: module, PTX: ptx, Arch: arch, Few: true, Channels: channels, Rows: rows, Threads: 32 * warps, Cluster: 1,
		Shared: warps*16*256*n + 2*rows*line + line, Chunk: 256 * n, Keep: rows * line,
	}
}

// TablesKernel is an entry point for networks of pattern tables on 7x6. They are padded with zeros to its number of lanes.
type TablesKernel struct {
	Name  string
	Lanes int  // of a row
	Words bool // rows are int16; otherwise bytes times a factor for each row
}

// TablesKernels lists the kernels, the one for rows of bytes first for each number of lanes.
func TablesKernels() (all []TablesKernel) {
	for _, lanes := range []int{128, 256, 512} {
		name := fmt.Sprintf("tables_%d", lanes)
		all = append(all, TablesKernel{name, lanes, false}, TablesKernel{name + "_words", lanes, true})
	}
	return all
}

// Kernel returns the kernel as it is launched for padded widths.
func (k TablesKernel) Kernel(widths [4]int) Kernel {
	return Kernel{
		Name: k.Name, Module: "tables", PTX: tablesPTX, Arch: 75, Channels: k.Lanes, Threads: 32 * TablesWarps, Cluster: 1, Shared: k.Shared(widths),
	}
}

// RowBytes is the size of a row of the table.
func (k TablesKernel) RowBytes() int {
	if k.Words {
		return 2 * k.Lanes
	}
	return k.Lanes
}

// Widths returns the padded inputs of the dense layers, and then the width of the output, for those of a network.
func (k TablesKernel) Widths(sizes [4]int) [4]int {
	padded := func(n int) int { return (n + 31) &^ 31 }
	return [4]int{k.Lanes / 2, padded(sizes[1]), padded(sizes[2]), sizes[3]}
}

// The positions that a warp takes at a time, and the warps of a block of threads.
const (
	TablesGroup = 16
	TablesWarps = 8
)

// Shared is the bytes of shared memory of a block of threads, for padded widths. It mirrors tables in tables.h.
func (k TablesKernel) Shared(widths [4]int) int {
	fixed := 4 * widths[0]
	for i := range 3 {
		fixed += widths[i]*widths[i+1] + 4*widths[i+1]
	}
	slot, activations := max(4*44, widths[1])+4*16, max(widths[0], widths[2])+16
	return fixed + TablesWarps*TablesGroup*(slot+activations)
}

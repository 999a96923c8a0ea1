// Positions on the device. The input is bitboards and the output is planes. nn/net defines the planes.
#pragma once

#include "device.h"

// Job describes one launch: one network evaluates n positions of one board. nn/gpu fills it in, in this layout.
struct Job {
	const u8 *weights;    // nn/gpu packs them for the shape of the kernel
	const u64 *positions; // [n][2] own, all; if wide: [n][4] own low, own high, all low, all high
	u32 *out;             // [n][2 + A]: see answer in heads.h
	u8 *scratch;          // only for tower_any: scratch_bytes for each block of the grid
	u64 scratch_bytes;
	int n;
	int rows, columns, inarow, gravity, wide; // the board; gravity and wide are 0 or 1
	int blocks;                               // residual blocks
	int channels;                             // only for tower_any: a multiple of 16
	int head, hidden;                         // HeadChannels V and Hidden F
	int boards;                               // positions that a block of threads processes at a time
	int actions;                              // A: the columns if there is gravity, otherwise the cells

	DEVICE_MEMBER int cells() const { return rows * columns; }
};

// Position contains the stones of the side to move (own) and of both sides (all). Bit (rows+1)*column + row is a cell; rows
// are counted from the bottom.
struct Position {
	u64 own[2], all[2];
};

DEVICE bool bit(const u64 (&set)[2], int i) { return (i < 64 ? set[0] >> i : set[1] >> (i - 64)) & 1; }

// position returns row i of the job, or an empty board if i >= n. The last group of boards may extend beyond n.
DEVICE Position position(const Job &job, int i) {
	Position p = {{0, 0}, {0, 0}};
	if (i >= job.n) return p;
	if (job.wide) {
		const u64 *at = job.positions + 4 * static_cast<u64>(i);
		p.own[0] = at[0], p.own[1] = at[1], p.all[0] = at[2], p.all[1] = at[3];
	} else {
		const u64 *at = job.positions + 2 * static_cast<u64>(i);
		p.own[0] = at[0], p.all[0] = at[1];
	}
	return p;
}

// playable reports whether the next stone can land on a column and row. Row 0 is at the bottom.
DEVICE bool playable(const Job &job, const Position &p, int column, int row) {
	int i = column * (job.rows + 1) + row;
	return !bit(p.all, i) && (!job.gravity || row == 0 || bit(p.all, i - 1));
}

// landing returns the cell in which action a places its stone, or -1 if the action is illegal. Cells are counted from the
// top left.
DEVICE int landing(const Job &job, const Position &p, int a) {
	if (!job.gravity) return playable(job, p, a % job.columns, job.rows - 1 - a / job.columns) ? a : -1;
	for (int row = 0; row < job.rows; row++)
		if (playable(job, p, a, row)) return (job.rows - 1 - row) * job.columns + a;
	return -1;
}

CONSTANT int PLANES = 5;

// neighbourhood returns the planes around a cell as bits. The convolution reads nine cells: tap = 3*kr + kc reads row
// top + kr-1, counted from the top, and column + kc-1. Bit 5*tap + plane is set if that plane is not zero in that cell. If
// the cell is not on the board, its five bits are zero.
DEVICE u64 neighbourhood(const Job &job, const Position &p, int top, int column) {
	int plies = popcount(p.all[0]) + popcount(p.all[1]);
	u64 planes = 0;
#pragma unroll
	for (int tap = 0; tap < 9; tap++) {
		int c = column + tap % 3 - 1, row = job.rows - 1 - (top + tap / 3 - 1);
		if (c < 0 || c >= job.columns || row < 0 || row >= job.rows) continue;
		int i = c * (job.rows + 1) + row;
		u64 own = bit(p.own, i), all = bit(p.all, i);
		u64 parity = (row + job.cells() - job.rows + plies + 1) & 1;
		u64 cell = own | (all & ~own) << 1 | u64(playable(job, p, c, row)) << 2 | parity << 3 | 1 << 4;
		planes |= cell << (PLANES * tap);
	}
	return planes;
}

// stem_input returns elements 8*part to 8*part+7 of the stem's input for a cell, as fp16. The elements are the bits of
// neighbourhood. A set bit becomes 1, or inarow/4 in the last plane, which marks the cells of the board. The elements from
// 45 on are zero.
DEVICE Quad stem_input(const Job &job, u64 planes, int part) {
	u32 x[4];
	u32 board = relu_f16x2(job.inarow * 0.25f, 0), one = relu_f16x2(1, 0);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		x[i] = 0;
#pragma unroll
		for (int half = 0; half < 2; half++) {
			int element = 8 * part + 2 * i + half;
			u32 value = element % PLANES == 4 ? board : one;
			if (planes >> element & 1) x[i] |= value << (16 * half);
		}
	}
	return {x[0], x[1], x[2], x[3]};
}

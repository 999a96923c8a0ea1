// Positions on the device: bitboards in, planes out. nn/net defines the planes.
#pragma once

#include "device.h"

// Job is one launch: n positions of one board through one network. nn/gpu fills it, in this layout.
struct Job {
	const u8 *weights;    // packed by nn/gpu for the kernel's shape
	const u64 *positions; // [n][2] own, all; where wide [n][4] own low, own high, all low, all high
	u32 *out;             // [n][2 + A]: see answer in heads.h
	u8 *scratch;          // tower_any only: scratch_bytes for each block of the grid
	u64 scratch_bytes;
	int n;
	int rows, columns, inarow, gravity, wide; // the board; gravity and wide are 0 or 1
	int blocks;                               // residual blocks
	int channels;                             // tower_any only: a multiple of 16
	int head, hidden;                         // HeadChannels V and Hidden F
	int boards;                               // boards a block of threads takes at a time: what fits, or fewer
	int actions;                              // A: columns under gravity, else cells

	DEVICE_MEMBER int cells() const { return rows * columns; }
};

// Position is the stones of the side to move and of both, bit (rows+1)*column + row from the bottom.
struct Position {
	u64 own[2], all[2];
};

DEVICE bool bit(const u64 (&set)[2], int i) { return (i < 64 ? set[0] >> i : set[1] >> (i - 64)) & 1; }

// position is row i of the job; absent rows of a ragged last block are empty boards.
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

// playable says whether the next stone may land on a column and row, row 0 at the bottom.
DEVICE bool playable(const Job &job, const Position &p, int column, int row) {
	int i = column * (job.rows + 1) + row;
	return !bit(p.all, i) && (!job.gravity || row == 0 || bit(p.all, i - 1));
}

// landing is the cell, counted from the top left, where action a puts its stone, or -1 where it is illegal.
DEVICE int landing(const Job &job, const Position &p, int a) {
	if (!job.gravity) return playable(job, p, a % job.columns, job.rows - 1 - a / job.columns) ? a : -1;
	for (int row = 0; row < job.rows; row++)
		if (playable(job, p, a, row)) return (job.rows - 1 - row) * job.columns + a;
	return -1;
}

CONSTANT int PLANES = 5;

// neighbourhood is the planes around a cell as bits: bit 5*tap + plane is set where that plane is not zero in the cell
// that kernel position tap = 3*kr + kc sees, row top + kr-1 from the top and column + kc-1. Off the board all are zero.
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

// stem_input is elements 8*part to 8*part+7 of what the stem multiplies for a cell: the neighbourhood as bf16, one where
// a bit is set, and on the board plane inarow/4; zero past 45.
DEVICE Quad stem_input(const Job &job, u64 planes, int part) {
	u32 x[4];
	u32 board = bf16x2(job.inarow * 0.25f, 0) & 0xffff;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		x[i] = 0;
#pragma unroll
		for (int half = 0; half < 2; half++) {
			int element = 8 * part + 2 * i + half;
			u32 value = element % PLANES == 4 ? board : 0x3f80;
			if (planes >> element & 1) x[i] |= value << (16 * half);
		}
	}
	return {x[0], x[1], x[2], x[3]};
}

// The part of the network after the heads' convolution: pooling, the value head's small layers, softmax, and the answer. Each sum
// is computed in the same order at every place in a block of threads, so an answer does not depend on its batch.
#pragma once

#include "board.h"

// Parameters are the float32 numbers after the packed matrices, in this order. "columns" is the width of the packed heads'
// convolution: V columns of value.conv, V columns of policy.conv, padding.
struct Parameters {
	const float *bias;      // [1 + 2*blocks][channels] of the tower: the stem, then two convolutions for each residual block
	const float *head;      // [columns]
	const float *fc;        // [2V][F], transposed
	const float *fc_bias;   // [F]
	const float *wdl;       // [3][F]
	const float *wdl_bias;  // [3]
	const float *logit;     // [V]
	const float *logit_bias; // [1]
};

DEVICE Parameters parameters(const Job &job, const float *at, int channels, int columns) {
	Parameters p;
	p.bias = at;
	p.head = p.bias + (1 + 2 * job.blocks) * channels;
	p.fc = p.head + columns;
	p.fc_bias = p.fc + 2 * job.head * job.hidden;
	p.wdl = p.fc_bias + job.hidden;
	p.wdl_bias = p.wdl + 3 * job.hidden;
	p.logit = p.wdl_bias + 3;
	p.logit_bias = p.logit + job.head;
	return p;
}

// relu returns NaN for NaN, so that answer finds it.
DEVICE float relu(float x) { return x < 0 ? 0 : x; }

DEVICE bool finite(float x) { return (float_bits(x) & 0x7f800000) != 0x7f800000; }

// Shared and Global are arrays of float32: at an offset in shared memory, and at a pointer. Templates call either of them Floats.
struct Shared {
	u32 offset;
	DEVICE_MEMBER float &operator[](int i) const { return shared<float>(offset + 4 * i); }
	DEVICE_MEMBER Shared from(int i) const { return {offset + 4 * i}; }
};
struct Global {
	float *values;
	DEVICE_MEMBER float &operator[](int i) const { return values[i]; }
	DEVICE_MEMBER Global from(int i) const { return {values + i}; }
};

// pool writes the mean of column v over all cells to dst[v], and the maximum to dst[V + v]. conv(cell, v) is the output of
// the heads' convolution after relu.
template <class Floats, class Conv>
DEVICE void pool(const Job &job, Floats dst, int v, Conv conv) {
	float sum = 0, greatest = conv(0, v);
	for (int cell = 0; cell < job.cells(); cell++) {
		float x = conv(cell, v);
		sum += x;
		greatest = greatest < x ? x : greatest; // this may lose NaN, but the mean keeps it
	}
	dst[v] = sum / static_cast<float>(job.cells());
	dst[job.head + v] = greatest;
}

// hidden returns output f of the value head's fully connected layer.
template <class Floats>
DEVICE float hidden(const Job &job, const Parameters &p, Floats pooled, int f) {
	float sum = p.fc_bias[f];
	for (int i = 0; i < 2 * job.head; i++) sum += p.fc[i * job.hidden + f] * pooled[i];
	return relu(sum);
}

// outcome returns the logit of a win, a draw or a loss.
template <class Floats>
DEVICE float outcome(const Job &job, const Parameters &p, Floats features, int o) {
	float sum = p.wdl_bias[o];
	for (int f = 0; f < job.hidden; f++) sum += p.wdl[o * job.hidden + f] * features[f];
	return sum;
}

// ILLEGAL is the logit of an illegal action, as bits: a NaN that no arithmetic gives.
CONSTANT u32 ILLEGAL = 0xffffffff;

// logit returns the logit of action a.
template <class Conv>
DEVICE float logit(const Job &job, const Parameters &p, const Position &at, int a, Conv conv) {
	int cell = landing(job, at, a);
	if (cell < 0) return float_of(ILLEGAL);
	float sum = p.logit_bias[0];
	for (int v = 0; v < job.head; v++) sum += p.logit[v] * conv(cell, job.head + v);
	return sum;
}

DEVICE float exponential(float x) { return exp2_fast(x * 1.44269504f); }

// The status of an answer is in the upper bits of its first word. Memory that no kernel wrote has neither value.
CONSTANT u32 ANSWERED = 0xau << 28, NOT_FINITE = 0xbu << 28;

// greatest returns the greatest logit of a legal action, and in ok whether the logits of all legal actions are finite.
template <class Floats>
DEVICE float greatest(const Job &job, Floats logits, bool &ok) {
	bool any = false;
	float best = 0;
	ok = true;
	for (int a = 0; a < job.actions; a++) {
		float x = logits[a];
		if (float_bits(x) == ILLEGAL) continue;
		ok = ok && finite(x);
		best = !any || x > best ? x : best;
		any = true;
	}
	return best;
}

// weight returns the unnormalised probability of action a: 0 if the action is illegal.
template <class Floats>
DEVICE float weight(const Job &job, Floats logits, int a) {
	bool ok;
	float best = greatest(job, logits, ok), x = logits[a];
	return float_bits(x) == ILLEGAL ? 0 : exponential(x - best);
}

// answer writes the word of action a in row i of out. With action 0 it also writes words 0 and 1:
//
//	word 0       the status, and in bits 0..24 the probability of a win in units of 2^-24
//	word 1       the probability of a draw in units of 2^-24; the rest of 1 is the probability of a loss
//	word 2 + a   the probability of action a as float32, 0 if it is illegal
//
// If a logit is not finite, the status is NOT_FINITE and the rest of the row is zero. outcomes has three logits; logits and weights
// have a number for each action.
template <class Floats>
DEVICE void answer(const Job &job, int i, int a, Floats outcomes, Floats logits, Floats weights) {
	float wdl[3], most = 0, total = 0;
	bool ok;
	greatest(job, logits, ok);
#pragma unroll
	for (int o = 0; o < 3; o++) {
		wdl[o] = outcomes[o];
		ok = ok && finite(wdl[o]);
		most = o == 0 || wdl[o] > most ? wdl[o] : most;
	}
	for (int b = 0; b < job.actions; b++) total += weights[b];
	u32 *out = job.out + static_cast<u64>(i) * (2 + job.actions);
	out[2 + a] = ok ? float_bits(weights[a] / total) : 0;
	if (a > 0) return;

	float sum = 0;
#pragma unroll
	for (int o = 0; o < 3; o++) sum += wdl[o] = exponential(wdl[o] - most);
	u32 one = 1 << 24;
	u32 win = ok ? static_cast<u32>(wdl[0] / sum * one + 0.5f) : 0;
	u32 draw = ok ? static_cast<u32>(wdl[1] / sum * one + 0.5f) : 0;
	out[0] = (ok ? ANSWERED : NOT_FINITE) | win;
	out[1] = win + draw > one ? one - win : draw;
}

// The pooling of the value head (heads.go), for vectors of LANES floats. It is included after sparse.h.

// pool writes the means of each channel's values over a position's cells, and then the maxima. The values are zero, positive or
// NaN, so their bits without the sign have the same order, with NaN above all others.
TARGET void NAME(pool)(pool p) {
	const VEC cells = (VEC){0} + (float)p.cell_count;
	for (int64_t i = 0; i < p.positions; i++, p.cells += p.cell_count, p.dst += p.width) {
		for (int64_t v = 0; v < p.channels; v += LANES) {
			VEC sum = {0};
			NAME(integers) most = {0};
			for (int64_t m = 0; m < p.cell_count; m++) {
				VEC x = LOAD(p.src + p.cells[m] * p.stride + v);
				NAME(integers) bits = (NAME(integers))x & 0x7fffffff;
				sum = ADD(sum, x);
				most ^= (bits ^ most) & (NAME(integers))(bits > most);
			}
			STORE(p.dst + v, sum / cells);
			STORE(p.dst + p.channels + v, (VEC)most);
		}
	}
}

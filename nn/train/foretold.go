package train

import (
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// foretold converts the value q of a search to probabilities of win, draw and loss for the side that q favours, according to the results of
// the records' games. It has values of |q| at equal distances from 0 to 1.
//
// No formula fits all kinds of play. How fast draws become rarer from q = 0, where nearly all games are drawn, to q = 1 depends on the
// game and on the players' strength. If a search prefers fast wins, a late win has a |q| well below 1, although it is equally certain.
type foretold [foretoldSteps + 1][3]float32

const foretoldSteps = 40

// wdl returns the probabilities of win, draw and loss for the side whose value is q.
func (f *foretold) wdl(q float32) [3]float32 {
	at := max(q, -q) * foretoldSteps
	low := min(int(at), foretoldSteps-1)
	part := at - float32(low)
	var wdl [3]float32
	for k := range wdl {
		wdl[k] = (1-part)*f[low][k] + part*f[low+1][k]
	}
	if q < 0 {
		wdl[0], wdl[2] = wdl[2], wdl[0]
	}
	return wdl
}

// calibrationChunks is the number of chunks of records that calibrate reads, spread evenly over all records. They are enough for the rates,
// and reading them takes less than a second.
const calibrationChunks = 64

// calibrate counts how the records' games ended.
func (r *Records) calibrate() error {
	var counts [foretoldSteps + 1][3]float64
	chunks := len(r.sizes)
	some := min(chunks, calibrationChunks)
	for i := range some {
		err := r.read(i*chunks/some, func(rec *record.Record) {
			if rec.GameOver == game.NotOver && rec.Weight > 0 && rec.Source != eval.Solved && (r.options.Heuristics || learnable(rec.Source)) {
				count(&counts, rec.Q, rec.Z)
			}
		})
		if err != nil {
			return err
		}
	}
	r.ends = rates(counts)
	return nil
}

// count adds a game's result to the two nearest values of |q|, with weights that interpolate linearly.
func count(counts *[foretoldSteps + 1][3]float64, q float32, z int8) {
	if q < 0 {
		q, z = -q, -z
	}
	at := float64(q) * foretoldSteps
	low := min(int(at), foretoldSteps-1)
	part := at - float64(low)
	counts[low][1-z] += 1 - part
	counts[low+1][1-z] += part
}

// rates returns the shares of the counts. A prior of 5 games pulls the shares of rare values of q towards (q, 1-q, 0), the triple with
// value q and the fewest decisive games. At q = 0, win and loss are made equal.
func rates(counts [foretoldSteps + 1][3]float64) (f foretold) {
	const prior = 5
	for i, n := range counts {
		if i == 0 {
			n[0] = (n[0] + n[2]) / 2
			n[2] = n[0]
		}
		q := float64(i) / foretoldSteps
		n[0] += prior * q
		n[1] += prior * (1 - q)
		for k := range n {
			f[i][k] = float32(n[k] / (n[0] + n[1] + n[2]))
		}
	}
	return f
}

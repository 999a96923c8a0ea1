package train

import (
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
)

// foretold is how games ended by the value q that a search gave one of their positions: win, draw and loss of the side that
// q favours, for values of |q| at even distances from 0 to 1. It makes three probabilities of one number.
//
// A formula would do that only for one kind of play. The draws between q = 0, nearly all of which end drawn, and q = 1
// depend on the game and on how well it is played; and a search that prefers quick wins gives late ones a |q| well below 1
// though they are as certain.
type foretold [foretoldSteps + 1][3]float32

const foretoldSteps = 40

// wdl is the probabilities of win, draw and loss for the side whose value is q.
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

// calibrationChunks is how many chunks of records are looked at, spread evenly over all of them: enough for the rates, and
// read within a second.
const calibrationChunks = 64

// calibrate counts how the games of the records ended.
func (r *Records) calibrate() error {
	var counts [foretoldSteps + 1][3]float64
	chunks := len(r.sizes)
	some := min(chunks, calibrationChunks)
	for i := range some {
		err := r.read(i*chunks/some, func(rec *record.Record) {
			if rec.GameOver == game.NotOver && rec.Weight > 0 && (r.options.Heuristics || learnable(rec.Source)) {
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

// count adds a game's end to the two nearest values of |q|, the nearer one's share the larger.
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

// rates are those of counts. Where there are few, they are drawn towards the triple with that q that has the fewest decisive
// games; and at q = 0 neither side is favoured.
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

package gpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// words is the number of uint64 of a position: own and all, and their upper halves on boards of more than 64 bits.
func (p plan) words() int {
	if (p.rules.Rows+1)*p.rules.Columns > 64 {
		return 4
	}
	return 2
}

// PositionBytes is the size of one position on its way to the device: 16, or 32 on boards of more than 64 bits.
func (p plan) PositionBytes() int { return 8 * p.words() }

// RowBytes is the size of one answer: 8 + 4A, or tablesAnswer.
func (p plan) RowBytes() int {
	if p.isTables() {
		return tablesAnswer
	}
	return 8 + 4*p.rules.Actions()
}

// PutPosition writes a position into dst in the kernels' format.
func (p plan) PutPosition(dst []byte, at game.Position) { p.PutPositions(dst, []game.Position{at}) }

// PutPositions writes positions into dst, one behind the other.
func (p plan) PutPositions(dst []byte, all []game.Position) {
	little := binary.LittleEndian
	if p.words() == 2 {
		dst = dst[:16*len(all)]
		for i := range all {
			to := (*[16]byte)(dst[16*i:])
			little.PutUint64(to[:8], all[i].Own.Lo)
			little.PutUint64(to[8:], all[i].All.Lo)
		}
		return
	}
	for i := range all {
		at, to := &all[i], (*[32]byte)(dst[32*i:])
		little.PutUint64(to[:8], at.Own.Lo)
		little.PutUint64(to[8:16], at.Own.Hi)
		little.PutUint64(to[16:24], at.All.Lo)
		little.PutUint64(to[24:], at.All.Hi)
	}
}

// The status in the first word of an answer (see answer in kernels/cuda/heads.h).
const (
	answered  = 0xa
	notFinite = 0xb
)

// ReadAnswer fills row i of the batch from an answer of the device, RowBytes long. The error says what is wrong with the
// answer; it wraps eval.ErrNotFinite if the kernel says so, which is no fault of the device.
func (p plan) ReadAnswer(b *eval.Batch, i int, answer []byte) error {
	return p.ReadAnswers(b, i, i+1, answer)
}

// ReadAnswers is ReadAnswer for rows first up to last, whose answers are one behind the other.
func (p plan) ReadAnswers(b *eval.Batch, first, last int, answers []byte) error {
	if p.isTables() {
		return readTables(b, first, last, answers)
	}
	size := p.RowBytes()
	for i := first; i < last; i++ {
		if err := readConvolutions(b, i, answers[(i-first)*size:][:size]); err != nil {
			return err
		}
	}
	return nil
}

// readConvolutions is ReadAnswer for a network of convolutions.
func readConvolutions(b *eval.Batch, i int, answer []byte) error {
	little := binary.LittleEndian
	const one = 1 << 24
	first, draw, rest := little.Uint32(answer), little.Uint32(answer[4:]), answer[8:]
	win := first & (2*one - 1)
	switch status := first >> 28; {
	case status == notFinite:
		return fmt.Errorf("evaluate: row %d: %w", i, b.NotFinite(i, "an output of the network, or above 65504 in a layer, which float16 cannot hold"))
	case status != answered || win > one || draw > one-win:
		return fmt.Errorf("evaluate: row %d: the device left no answer, but %#x %#x", i, first, draw)
	}
	wdl, policy, most := b.WDLRow(i), b.PolicyRow(i), uint32(0)
	wdl[0], wdl[1], wdl[2] = float32(win)/one, float32(draw)/one, float32(one-win-draw)/one
	for a := range policy {
		bits := little.Uint32(rest)
		rest, most = rest[4:], max(most, bits)
		policy[a] = math.Float32frombits(bits)
	}
	if most > math.Float32bits(1) { // as are the bits of larger numbers, of negative ones and of NaN
		for a, x := range policy {
			if !(x >= 0 && x <= 1) {
				return fmt.Errorf("evaluate: row %d: the device gives action %d probability %g", i, a, x)
			}
		}
	}
	b.Source[i] = eval.GPU
	return nil
}

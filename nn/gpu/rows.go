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
func (p plan) PutPosition(dst []byte, at game.Position) {
	put := binary.LittleEndian.PutUint64
	put(dst, at.Own.Lo)
	if p.words() == 2 {
		put(dst[8:], at.All.Lo)
		return
	}
	put(dst[8:], at.Own.Hi)
	put(dst[16:], at.All.Lo)
	put(dst[24:], at.All.Hi)
}

// The status in the first word of an answer (see answer in kernels/cuda/heads.h).
const (
	answered  = 0xa
	notFinite = 0xb
)

// ReadAnswer fills row i of the batch from an answer of the device, RowBytes long. The error says what is wrong with the
// answer; it wraps eval.ErrNotFinite if the kernel says so, which is no fault of the device.
func (p plan) ReadAnswer(b *eval.Batch, i int, answer []byte) error {
	if p.isTables() {
		return readTables(b, i, answer)
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(answer[4*i:]) }
	const one = 1 << 24
	win, draw := word(0)&(2*one-1), word(1)
	switch status := word(0) >> 28; {
	case status == notFinite:
		return fmt.Errorf("evaluate: row %d: %w", i, b.NotFinite(i, "an output of the network, or above 65504 in a layer, which float16 cannot hold"))
	case status != answered || win > one || draw > one-win:
		return fmt.Errorf("evaluate: row %d: the device left no answer, but %#x %#x", i, word(0), draw)
	}
	wdl, policy := b.WDLRow(i), b.PolicyRow(i)
	for j, units := range [...]uint32{win, draw, one - win - draw} {
		wdl[j] = float32(units) / one
	}
	for a := range policy {
		policy[a] = math.Float32frombits(word(2 + a))
		if !(policy[a] >= 0 && policy[a] <= 1) {
			return fmt.Errorf("evaluate: row %d: the device gives action %d probability %g", i, a, policy[a])
		}
	}
	b.Source[i] = eval.GPU
	return nil
}

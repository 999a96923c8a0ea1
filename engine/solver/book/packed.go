package book

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/evald/evald/engine/game"
)

// Packed has the exact scores of all positions with one number of stones, compressed, and finds those of positions with up to three stones
// fewer by minimax. It is safe for concurrent use, and Score and Result allocate nothing.
//
//	8 bytes       "EVALDPK1"
//	4 bytes       rows, columns, in-a-row, stones
//	2cs bytes     frequencies of each of s symbols in each of c contexts (rans.go), little-endian: each context's sum is 4096, or 0
//	              if it does not occur
//	4(n+1) bytes  little-endian: where each of n shapes begins after these numbers, in bytes, and where the last one ends
//	...           of each shape: the number of bytes of each block, as one byte each, and the blocks
//	32 bytes      SHA-256 of everything before
//
// A shape's colourings (numbering.go) are in blocks of 66, the last one shorter. A block has a symbol for each colouring whose score needs a
// search: neither side has a line, the side to move cannot complete one, and can prevent that the other side does with its next stone. Symbol
// 0 is for no score, because no game reaches the position; symbol 1 is the lowest score. The context is the symbol before in the same block,
// and how many cells complete a line of each side.
type Packed struct {
	*numbering
	columns []game.Bits // from the centre outwards, the order of moves of minimax
	lowest  int         // score of an unfinished position with all stones of the book
	symbols int
	models  []model  // by context
	starts  []uint32 // by shape
	data    []byte
}

const (
	packedMagic = "EVALDPK1"
	packedHead  = len(packedMagic) + 4
	blockSlots  = 66 // a shorter block is found faster, and takes more bytes; its length in bytes is at most 66 * 12 / 8 + 3, which fits a byte
	deepest     = 3  // plies of minimax: more would take milliseconds

	noScore     = 0 // symbol
	mostThreats = 2 // contexts do not distinguish more cells that complete a line of one side
)

// newPacked returns a book without data. The board must have a book of this many plies (Book.check).
func newPacked(b *game.Board, stones int) (*Packed, error) {
	if stones > mostPacked {
		return nil, fmt.Errorf("packed book of %d stones: must be at most %d", stones, mostPacked)
	}
	shapes, colourings := leastSlots(b, stones)
	if slots := shapes * colourings; slots > maxPositions {
		return nil, fmt.Errorf("packed book of %d stones: %v has %d slots of positions or more, must be at most %d", stones, b.Rules(), slots, maxPositions)
	}
	p := &Packed{numbering: newNumbering(b, stones), lowest: -(b.Cells() - stones) / 2}
	p.symbols = (b.Cells()+1-stones)/2 - p.lowest + 2 // the highest score is of a win by the next stone
	for _, column := range b.FromCentre() {
		p.columns = append(p.columns, game.Bits{Lo: (1<<b.Rows() - 1) << b.Index(column, 0)})
	}
	return p, nil
}

func (k *Packed) contexts() int { return k.symbols * (mostThreats + 1) * (mostThreats + 1) }
func (k *Packed) blocks() int   { return (len(k.masks) + blockSlots - 1) / blockSlots }

// byRules returns the score of an unfinished position that no search is needed for: the side to move wins with the next stone, or cannot
// prevent that the other side wins with the one after it. Otherwise safe has the moves that prevent it, and threats is a number that
// tells how many cells complete a line of each side.
func (k *Packed) byRules(p game.Position) (score int, known bool, safe game.Bits, threats int) {
	b, left := k.board, k.board.Cells()-p.Plies()
	empty := b.Full().AndNot(p.All)
	own, other := b.Completes(p.Own).And(empty), b.Completes(p.Other()).And(empty)
	legal := b.Legal(p)
	if !legal.And(own).IsZero() {
		return (left + 1) / 2, true, safe, 0
	}
	if safe = b.SafeFrom(legal, other); safe.IsZero() {
		return -left / 2, true, safe, 0
	}
	return 0, false, safe, min(own.OnesCount(), mostThreats)*(mostThreats+1) + min(other.OnesCount(), mostThreats)
}

// context returns the context of the position of a slot, if the file has a symbol for it.
func (k *Packed) context(p game.Position, before int) (context int, has bool) {
	if k.board.Won(p.Own) || k.board.Won(p.Other()) {
		return 0, false
	}
	_, known, _, threats := k.byRules(p)
	return threats*k.symbols + before, !known
}

// Rules are the rules of the book's game.
func (k *Packed) Rules() game.Rules { return k.board.Rules() }

// Plies is the number of stones up to which the book has positions. It has none with less than Plies - 3.
func (k *Packed) Plies() int { return k.stones }

// Score is the exact score of p for the side to move, if the book has it.
func (k *Packed) Score(p game.Position) (score int, ok bool) {
	return k.find(p, -math.MaxInt, math.MaxInt)
}

// Result is the result of p for the side to move, or Ongoing if the book does not have it.
func (k *Packed) Result(p game.Position) game.Result {
	score, ok := k.find(p, -1, 1)
	if !ok {
		return game.Ongoing
	}
	return game.ResultOf(score)
}

// find is search for positions of any game.
func (k *Packed) find(p game.Position, alpha, beta int) (score int, ok bool) {
	n := p.Plies()
	if n > k.stones || n < k.stones-deepest || p.Own.OnesCount() != n/2 || k.board.Result(p) != game.Ongoing {
		return 0, false
	}
	return k.search(p, alpha, beta)
}

// search returns the score of an unfinished position by alpha-beta search. A score of at most alpha is an upper bound, one of at least beta a
// lower bound. ok is false if no game leads to the position.
func (k *Packed) search(p game.Position, alpha, beta int) (best int, ok bool) {
	score, known, safe, _ := k.byRules(p)
	if known {
		return score, true
	}
	if p.Plies() == k.stones {
		return k.lookUp(p)
	}
	best = -math.MaxInt
	for _, column := range k.columns {
		cell := safe.And(column)
		if cell.IsZero() {
			continue
		}
		score, ok := k.search(k.board.PlayCell(p, cell), -beta, -max(alpha, best))
		if !ok {
			return 0, false
		}
		if best = max(best, -score); best >= beta {
			break
		}
	}
	return best, true
}

// lookUp decodes the score of a position with all stones that byRules does not know.
func (k *Packed) lookUp(p game.Position) (score int, ok bool) {
	shape, colouring, ok := k.slot(p)
	if !ok {
		return 0, false
	}
	d := decoder{text: k.block(shape, colouring/blockSlots)}
	cells, symbol := k.cells(shape), noScore
	for at := colouring - colouring%blockSlots; at <= colouring; at++ {
		if context, has := k.context(k.position(shape, &cells, at), symbol); has {
			symbol = d.next(k.models[context])
		}
	}
	return symbol - 1 + k.lowest, symbol != noScore
}

// block returns the text of a shape's block.
func (k *Packed) block(shape, block int) []byte {
	text := k.data[k.starts[shape]:k.starts[shape+1]]
	from := k.blocks()
	for _, n := range text[:block] {
		from += int(n)
	}
	return text[from:][:text[block]]
}

// leastSlots returns half the number of shapes of a numbering without regard to mirror images, and the number of colourings. The numbering has
// slightly more shapes, because some are their own mirror images.
func leastSlots(b *game.Board, stones int) (shapes, colourings int) {
	ways := make([]int, stones+1) // of distributing that many stones to the columns so far
	ways[0] = 1
	for range b.Columns() {
		for n := stones; n >= 0; n-- {
			for height := 1; height <= min(b.Rows(), n); height++ {
				ways[n] += ways[n-height]
			}
		}
	}
	colourings = 1
	for i := range stones / 2 {
		colourings = colourings * (stones - i) / (i + 1)
	}
	return (ways[stones] + 1) / 2, colourings
}

// Pack compresses the scores of the book's last ply into a file for ParsePacked, and compares each score with that in the file.
func (b *Book) Pack() ([]byte, error) {
	if b.results {
		return nil, errors.New("book: a book of results cannot be packed, because it has no scores")
	}
	file, err := pack(b.board, b.Plies(), b.Score)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	k, err := ParsePacked(file)
	if err != nil {
		return nil, err
	}
	for i, key := range b.levels[b.Plies()] {
		p, want := b.position(key), int(b.scores[b.Plies()][i])
		if got, ok := k.Score(p); !ok || got != want {
			return nil, fmt.Errorf("book: the score of %+v is %d, and %d (%v) after packing", p, want, got, ok)
		}
	}
	return file, nil
}

// pack returns a file of the scores of all positions with this many stones that score knows.
func pack(b *game.Board, stones int, score func(game.Position) (int, bool)) ([]byte, error) {
	k, err := newPacked(b, stones)
	if err != nil {
		return nil, err
	}
	counts := make([][]int, k.contexts())
	for c := range counts {
		counts[c] = make([]int, k.symbols)
	}
	found := make([]byte, len(k.shapes)*len(k.masks)) // symbols by slot
	for shape := range k.shapes {
		err := k.each(shape, found, func(p game.Position, symbol *byte) error {
			*symbol = noScore
			if s, ok := score(p); ok {
				if *symbol = byte(s - k.lowest + 1); s < k.lowest || int(*symbol) >= k.symbols {
					return fmt.Errorf("score %d of a position with %d stones of %v is impossible", s, stones, b.Rules())
				}
			}
			return nil
		}, func(_, context int, symbol byte) { counts[context][symbol]++ })
		if err != nil {
			return nil, err
		}
	}
	r := b.Rules()
	file := append([]byte(packedMagic), byte(r.Rows), byte(r.Columns), byte(r.InARow), byte(stones))
	for _, c := range counts {
		m := newModel(c)
		k.models = append(k.models, m)
		for s := range c {
			file = binary.LittleEndian.AppendUint16(file, m[s+1]-m[s])
		}
	}
	symbols := make([][]coded, k.blocks())
	for shape := range k.shapes {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(k.data)))
		for i := range symbols {
			symbols[i] = symbols[i][:0]
		}
		_ = k.each(shape, found, nil, func(block, context int, symbol byte) {
			symbols[block] = append(symbols[block], coded{k.models[context], int(symbol)})
		})
		lengths := len(k.data)
		k.data = append(k.data, make([]byte, k.blocks())...)
		for i, s := range symbols {
			text := encode(s)
			k.data[lengths+i] = byte(len(text))
			k.data = append(k.data, text...)
		}
	}
	file = binary.LittleEndian.AppendUint32(file, uint32(len(k.data)))
	file = append(file, k.data...)
	sum := sha256.Sum256(file)
	return append(file, sum[:]...), nil
}

// each calls use for each position of a shape for which the file has a symbol, with its block, context and symbol. If set is not nil, it is
// called before, to set the symbol.
func (k *Packed) each(shape int, found []byte, set func(p game.Position, symbol *byte) error, use func(block, context int, symbol byte)) error {
	cells, symbols, before := k.cells(shape), found[shape*len(k.masks):], 0
	for c := range k.masks {
		if c%blockSlots == 0 {
			before = noScore
		}
		p := k.position(shape, &cells, c)
		context, has := k.context(p, before)
		if !has {
			continue
		}
		if set != nil {
			if err := set(p, &symbols[c]); err != nil {
				return err
			}
		}
		use(c/blockSlots, context, symbols[c])
		before = int(symbols[c])
	}
	return nil
}

// ParsePacked returns the book of a file that Pack returned, which must not change any more. The error names the mistake.
func ParsePacked(file []byte) (*Packed, error) {
	k, err := parsePacked(file)
	if err != nil {
		return nil, fmt.Errorf("packed book: %w", err)
	}
	return k, nil
}

func parsePacked(file []byte) (*Packed, error) {
	if len(file) < packedHead+sha256.Size || string(file[:len(packedMagic)]) != packedMagic {
		return nil, errors.New("is not a packed book of exact scores")
	}
	body, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, errors.New("is damaged: its checksum does not fit")
	}
	head := body[len(packedMagic):packedHead]
	board, err := game.NewBoard(game.Rules{Rows: int(head[0]), Columns: int(head[1]), InARow: int(head[2]), Gravity: true})
	if err != nil {
		return nil, err
	}
	stones := int(head[3])
	if err := (&Book{board: board}).check(stones); err != nil {
		return nil, err
	}
	if stones <= mostPacked { // refuse a wrong header before its shapes are listed, which can take a second
		if shapes, _ := leastSlots(board, stones); 4*shapes > len(body) {
			return nil, fmt.Errorf("has %d bytes, too few for %d shapes or more of %d stones of %v", len(file), shapes, stones, board.Rules())
		}
	}
	k, err := newPacked(board, stones)
	if err != nil {
		return nil, err
	}
	rest := body[packedHead:]
	if numbers := 2*k.contexts()*k.symbols + 4*(len(k.shapes)+1); len(rest) < numbers {
		return nil, fmt.Errorf("has %d bytes after its header, and %v with %d stones needs at least %d", len(rest), board.Rules(), stones, numbers)
	}
	for c := range k.contexts() {
		m, sum := make(model, k.symbols+1), 0
		for s := range k.symbols {
			sum += int(binary.LittleEndian.Uint16(rest))
			m[s+1], rest = uint16(min(sum, math.MaxUint16)), rest[2:]
		}
		if sum != scale && sum != 0 {
			return nil, fmt.Errorf("has frequencies of context %d with the sum %d, must be %d or 0", c, sum, scale)
		}
		k.models = append(k.models, m)
	}
	k.starts = make([]uint32, len(k.shapes)+1)
	for i := range k.starts {
		k.starts[i], rest = binary.LittleEndian.Uint32(rest), rest[4:]
	}
	k.data = rest
	return k, k.checkBlocks()
}

// checkBlocks returns an error if the blocks do not fill the data.
func (k *Packed) checkBlocks() error {
	at := 0
	for shape := range k.shapes {
		start, end := int(k.starts[shape]), int(k.starts[shape+1])
		if start != at || start+k.blocks() > len(k.data) {
			return fmt.Errorf("has shape %d at byte %d of %d, and the one before ends at byte %d", shape, start, len(k.data), at)
		}
		at += k.blocks()
		for _, n := range k.data[start:at] {
			at += int(n)
		}
		if end != at || end > len(k.data) {
			return fmt.Errorf("has shape %d with blocks up to byte %d of %d, and the next one at byte %d", shape, at, len(k.data), end)
		}
	}
	if at != len(k.data) {
		return fmt.Errorf("has %d bytes after its last block", len(k.data)-at)
	}
	return nil
}

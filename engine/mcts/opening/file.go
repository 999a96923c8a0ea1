package opening

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

const (
	magic        = "evald opening book 1"
	maxPositions = 1 << 26 // a few GiB of memory
)

// Load reads the file of a book. An error names the file and the mistake.
func Load(path string) (*Book, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening book: %w", err)
	}
	defer f.Close()
	b, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("opening book %s: %w", path, err)
	}
	return b, nil
}

// Write writes the file of the book. Equal books give the same bytes.
func (b *Book) Write(w io.Writer) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(z)
	fmt.Fprintf(out, "%s %v %d\n", magic, b.board.Rules(), len(b.known))
	var last game.Position
	var record []byte
	for _, p := range slices.SortedFunc(maps.Keys(b.known), game.Position.Compare) {
		record = appendRecord(record[:0], last, p, b.known[p])
		if _, err := out.Write(record); err != nil {
			return err
		}
		last = p
	}
	return errors.Join(out.Flush(), z.Close())
}

func appendRecord(r []byte, last, p game.Position, k mcts.Known) []byte {
	hi, lo := p.All.Hi-last.All.Hi, p.All.Lo
	if hi == 0 {
		lo -= last.All.Lo
	}
	for _, x := range []uint64{hi, lo, p.Own.Hi, p.Own.Lo, uint64(k.Visits)} {
		r = binary.AppendUvarint(r, x)
	}
	value := int16(math.Round(float64(k.Value) * math.MaxInt16))
	return append(binary.LittleEndian.AppendUint16(r, uint16(value)), byte(math.Round(float64(k.Draw)*255)), byte(k.Result))
}

// Read reads a book. A position that cannot occur in the book's game is an error.
func Read(r io.Reader) (*Book, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("is not a gzip file: %w", err)
	}
	in := bufio.NewReader(z)
	board, n, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	b := New(board)
	var last game.Position
	for i := range n {
		p, k, err := readRecord(in, last)
		if err != nil {
			return nil, fmt.Errorf("position %d of %d: %w", i+1, n, err)
		}
		if err := b.check(p, k); err != nil {
			return nil, fmt.Errorf("position %d of %d: %w", i+1, n, err)
		}
		if i > 0 && last.Compare(p) >= 0 {
			return nil, fmt.Errorf("position %d of %d is out of order", i+1, n)
		}
		b.known[p] = k
		last = p
	}
	// Reading on makes gzip compare its checksum.
	switch extra, err := io.Copy(io.Discard, io.LimitReader(in, 1)); {
	case err != nil:
		return nil, fmt.Errorf("is damaged: %w", err)
	case extra > 0:
		return nil, errors.New("continues after its last position")
	}
	return b, z.Close()
}

// maxHeader is more than the maximum size of a header in bytes.
const maxHeader = 100

func readHeader(in *bufio.Reader) (*game.Board, int, error) {
	line, err := in.ReadSlice('\n')
	if err != nil || len(line) > maxHeader {
		return nil, 0, errors.New("is not an opening book")
	}
	rest, ok := strings.CutPrefix(string(line), magic+" ")
	fields := strings.Fields(rest)
	if !ok || len(fields) != 2 {
		return nil, 0, errors.New("is not an opening book, or has a version that this program does not know")
	}
	rules, err := game.ParseRules(fields[0])
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.Atoi(fields[1])
	if err != nil || n < 0 || n > maxPositions {
		return nil, 0, fmt.Errorf("claims %q positions, want 0 to %d", fields[1], maxPositions)
	}
	board, err := game.NewBoard(rules)
	return board, n, err
}

func readRecord(in *bufio.Reader, last game.Position) (p game.Position, k mcts.Known, err error) {
	var x [5]uint64
	for i := range x {
		if x[i], err = binary.ReadUvarint(in); err != nil {
			return p, k, unexpected(err)
		}
	}
	if p.All.Hi, p.All.Lo = last.All.Hi+x[0], x[1]; x[0] == 0 {
		p.All.Lo += last.All.Lo
	}
	p.Own = game.Bits{Hi: x[2], Lo: x[3]}
	var tail [4]byte
	if _, err := io.ReadFull(in, tail[:]); err != nil {
		return p, k, unexpected(err)
	}
	if x[4] < 1 || x[4] > math.MaxUint32 || tail[3] > byte(game.Loss) {
		return p, k, fmt.Errorf("%d visits, result %d: want 1 to %d and 0 to 3", x[4], tail[3], uint32(math.MaxUint32))
	}
	value := max(-math.MaxInt16, int16(binary.LittleEndian.Uint16(tail[:])))
	return p, mcts.Known{
		Visits: uint32(x[4]),
		Value:  float32(value) / math.MaxInt16,
		Draw:   float32(tail[2]) / 255,
		Result: game.Result(tail[3]),
	}, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("is damaged: %w", err)
}

// check returns an error if no search of the game can have met the position.
func (b *Book) check(p game.Position, k mcts.Known) error {
	if err := b.board.Check(p, game.InTurn); err != nil {
		return fmt.Errorf("its stones are %x of %x: %w", p.Own, p.All, err)
	}
	if b.board.Result(p) != game.Ongoing {
		return errors.New("its game is over")
	}
	if q, _ := b.board.Canonical(p); q != p {
		return errors.New("its mirror image is stored, not it")
	}
	return nil
}

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
)

const (
	magic        = "evald opening book "
	version      = "2"
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
	fmt.Fprintf(out, "%s%s %v %d\n", magic, version, b.board.Rules(), len(b.found))
	var last game.Position
	var record []byte
	for _, p := range slices.SortedFunc(maps.Keys(b.found), game.Position.Compare) {
		record = appendRecord(record[:0], last, p, b.found[p])
		if _, err := out.Write(record); err != nil {
			return err
		}
		last = p
	}
	return errors.Join(out.Flush(), z.Close())
}

func appendRecord(r []byte, last, p game.Position, e entry) []byte {
	hi, lo := p.All.Hi-last.All.Hi, p.All.Lo
	if hi == 0 {
		lo -= last.All.Lo
	}
	for _, x := range []uint64{hi, lo, p.Own.Hi, p.Own.Lo, uint64(e.visits)} {
		r = binary.AppendUvarint(r, x)
	}
	for _, v := range e.moves {
		r = append(r, byte(v))
	}
	return r
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
		p, e, err := b.readRecord(in, last)
		if err != nil {
			return nil, fmt.Errorf("position %d of %d: %w", i+1, n, err)
		}
		if i > 0 && last.Compare(p) >= 0 {
			return nil, fmt.Errorf("position %d of %d is out of order", i+1, n)
		}
		b.found[p] = e
		last = p
	}
	// Reading on makes gzip compare its checksum.
	switch extra, err := io.Copy(io.Discard, io.LimitReader(in, 1)); {
	case err != nil:
		return nil, fmt.Errorf("is damaged: %w", err)
	case extra > 0:
		return nil, errors.New("continues after its last position")
	}
	b.BackUpAll()
	return b, z.Close()
}

// maxHeader is more than the maximum size of a header in bytes.
const maxHeader = 100

func readHeader(in *bufio.Reader) (*game.Board, int, error) {
	line, err := in.ReadSlice('\n')
	if err != nil || len(line) > maxHeader {
		return nil, 0, errors.New("is not an opening book")
	}
	rest, ok := strings.CutPrefix(string(line), magic)
	fields := strings.Fields(rest)
	if !ok || len(fields) != 3 {
		return nil, 0, errors.New("is not an opening book")
	}
	if fields[0] != version {
		return nil, 0, fmt.Errorf("has version %s of the format, and this program reads %s: grow it anew with evald grow-book", fields[0], version)
	}
	rules, err := game.ParseRules(fields[1])
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.Atoi(fields[2])
	if err != nil || n < 0 || n > maxPositions {
		return nil, 0, fmt.Errorf("claims %q positions, want 0 to %d", fields[2], maxPositions)
	}
	board, err := game.NewBoard(rules)
	return board, n, err
}

func (b *Book) readRecord(in *bufio.Reader, last game.Position) (p game.Position, e entry, err error) {
	var x [5]uint64
	for i := range x {
		if x[i], err = binary.ReadUvarint(in); err != nil {
			return p, e, unexpected(err)
		}
	}
	if p.All.Hi, p.All.Lo = last.All.Hi+x[0], x[1]; x[0] == 0 {
		p.All.Lo += last.All.Lo
	}
	p.Own = game.Bits{Hi: x[2], Lo: x[3]}
	if err := b.check(p); err != nil {
		return p, e, err
	}
	if x[4] < 1 || x[4] > math.MaxUint32 {
		return p, e, fmt.Errorf("%d visits, want 1 to %d", x[4], uint32(math.MaxUint32))
	}
	e = entry{visits: uint32(x[4]), moves: make([]int8, b.board.Legal(p).OnesCount())}
	for i := range e.moves {
		v, err := in.ReadByte()
		if err != nil {
			return p, e, unexpected(err)
		}
		if e.moves[i] = int8(v); e.moves[i] < -won {
			return p, e, fmt.Errorf("the value of a move is %d, want %d to %d", e.moves[i], -won, won)
		}
	}
	return p, e, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("is damaged: %w", err)
}

// check returns an error if no search of the game can have met the position.
func (b *Book) check(p game.Position) error {
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

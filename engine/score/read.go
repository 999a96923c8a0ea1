package score

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/evald/evald/engine/game"
)

// maxLine is the maximum length of a line of a score file in bytes.
const maxLine = 64 << 10

// Read reads all positions of a file.
func Read(r io.Reader) ([]Position, error) { return NewReader(r, Place{}).All() }

// All reads all remaining positions.
func (r *Reader) All() (positions []Position, err error) {
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return positions, nil
		}
		if err != nil {
			return nil, err
		}
		positions = append(positions, p)
	}
}

// Seal returns a file that consists of a first line and the given lines. head is the first line, a comment without a newline, to which Seal
// appends the checksum of all lines after it, a CRC-32 (IEEE): "# head; crc32 1a2b3c4d".
func Seal(head string, lines []byte) []byte {
	behind := append([]byte{'\n'}, lines...)
	return append(fmt.Appendf(nil, "%s%s%08x", head, beforeSum, crc32.ChecksumIEEE(behind)), behind...)
}

const beforeSum = "; crc32 "

// CheckSeal compares the checksum of a file that Seal made. A file without a checksum was written by another program and passes.
func CheckSeal(text []byte) error {
	r := NewReader(bytes.NewReader(text), Place{})
	for r.lines.Scan() {
	}
	return cmp.Or(r.lines.Err(), r.checkSeal())
}

// Reader reads positions with exact scores, one per line:
//
//   - `moves s1 s2 ..`, with one score for each action and -1000 for an action that cannot be played;
//   - {"board": [..], "score": s, "move score": [..]} on 7x6x4, with Kaggle's board, 42 cells row by row from the
//     top left, the score of the position, and that of each of the 7 columns, -99 for a full one. All scores are for the
//     side to move, which follows from the stones: players take turns, and 1 begins. Peter Cnudde's validation set for
//     Kaggle's Connect X, refmoves1k_kaggle, is such a file;
//   - `moves score`, the score of the position alone, as in Pascal Pons' benchmark sets. If the first line is of this kind, all
//     must be. See Unsolved.
//
// It skips blank lines and comments (#), except LeftOut lines. It holds one line in memory. If the first line of the file contains a
// checksum (Seal), a Reader that began there compares it.
type Reader struct {
	Parser game.Parser // reads the positions

	// Unsolved accepts lines `moves score`. Their positions have no Scores until SolveMoves finds them.
	Unsolved bool

	LeftOut []LeftOut // the LeftOut lines so far

	unsolved bool // the file has lines `moves score`
	before   int  // number of positions read

	lines  *bufio.Scanner
	place  Place
	sealed bool   // the first line has a checksum
	want   string // that checksum
	sum    uint32 // of the bytes after it
}

// Place is an offset between two lines of a file.
type Place struct {
	Offset int64 // bytes before it
	Line   int   // lines before it
}

// NewReader reads from r, which begins at the given place in a file. Errors count lines from the beginning of the file.
func NewReader(r io.Reader, at Place) *Reader {
	s := &Reader{lines: bufio.NewScanner(r), place: at}
	s.lines.Buffer(nil, maxLine)
	s.lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		s.addSum(data[:n])
		s.place.Offset += int64(n)
		return n, line, err
	})
	return s
}

// addSum adds whole lines, the next bytes of the file, to the checksum.
func (r *Reader) addSum(lines []byte) {
	if r.place.Offset == 0 {
		if _, behind, ok := bytes.Cut(lines, []byte(beforeSum)); ok {
			r.sealed, r.want = true, string(behind[:min(8, len(behind))])
			lines = behind[len(r.want):]
		}
	}
	if r.sealed {
		r.sum = crc32.Update(r.sum, crc32.IEEETable, lines)
	}
}

// checkSeal compares the checksums after the last line.
func (r *Reader) checkSeal() error {
	if got := fmt.Sprintf("%08x", r.sum); r.sealed && got != r.want {
		return fmt.Errorf("is damaged: the checksum of its lines is %s, but it states %.8q", got, r.want)
	}
	return nil
}

// Place is the place after the last line read.
func (r *Reader) Place() Place { return r.place }

// Next returns the next position, and io.EOF after the last. Other errors contain the line's number and its mistake or, after the last
// line, the checksums.
func (r *Reader) Next() (Position, error) {
	for r.lines.Scan() {
		r.place.Line++
		text := bytes.TrimSpace(r.lines.Bytes())
		if r.place.Line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // Windows editors put a byte order mark at the start of UTF-8 files
		}
		if len(text) == 0 || text[0] == '#' {
			if err := r.comment(string(text)); err != nil {
				return Position{}, fmt.Errorf("line %d: %w", r.place.Line, err)
			}
			continue
		}
		p, err := r.parse(string(text))
		if err != nil {
			return p, fmt.Errorf("line %d: %w", r.place.Line, err)
		}
		p.Line = r.place.Line
		return p, nil
	}
	if err := r.lines.Err(); err != nil {
		return Position{}, fmt.Errorf("line %d: %w", r.place.Line+1, err)
	}
	if err := r.checkSeal(); err != nil {
		return Position{}, fmt.Errorf("%w: make it again, or, if you have changed it yourself, remove the checksum from its first line", err)
	}
	return Position{}, io.EOF
}

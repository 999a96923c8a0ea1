package score

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// maxLine bounds a line of a score file.
const maxLine = 64 << 10

// Read reads all positions of a file.
func Read(r io.Reader) ([]Position, error) { return NewReader(r, Place{}).All() }

// All reads all positions that are left.
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

// Seal makes a file of a first line and the lines after it. head is the first line, a comment without a newline. Seal adds
// the checksum of everything after that line to it, a CRC-32 (IEEE): "# head; crc32 1a2b3c4d".
func Seal(head string, lines []byte) []byte {
	behind := append([]byte{'\n'}, lines...)
	return append(fmt.Appendf(nil, "%s%s%08x", head, beforeSum, crc32.ChecksumIEEE(behind)), behind...)
}

const beforeSum = "; crc32 "

// CheckSeal compares the checksum of a file made by Seal. A file without one, from another program, passes.
func CheckSeal(text []byte) error {
	r := NewReader(bytes.NewReader(text), Place{})
	for r.lines.Scan() {
	}
	return cmp.Or(r.lines.Err(), r.checkSeal())
}

// Reader reads positions with exact scores, one per line: `moves s1 s2 ..`, with one score for each action and -1000 for an
// action that cannot be played, or the JSON that `evald solve --scores` writes. It skips blank lines and those that begin
// with #. It holds one line in memory. A file that it reads from the beginning must have the checksum that its first line
// names, if that line names one (Seal).
type Reader struct {
	Parser game.Parser // reads the positions
	lines  *bufio.Scanner
	place  Place
	sealed bool   // the first line has a checksum
	want   string // that checksum
	sum    uint32 // of the bytes behind it
}

// Place is a position between two lines of a file.
type Place struct {
	Offset int64 // bytes before it
	Line   int   // lines before it
}

// NewReader reads from r, which begins at the given place of a file; errors count lines from there.
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

// addSum adds the next bytes of the file, whole lines, to the checksum.
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
		return fmt.Errorf("is damaged: the checksum of its lines is %s, and it says %.8q", got, r.want)
	}
	return nil
}

// Place is the place after the last line read.
func (r *Reader) Place() Place { return r.place }

// Next returns the next position, and io.EOF after the last. Other errors name the line and what is wrong with it, or, after
// the last line, the checksum.
func (r *Reader) Next() (Position, error) {
	for r.lines.Scan() {
		r.place.Line++
		text := bytes.TrimSpace(r.lines.Bytes())
		if r.place.Line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // editors on Windows put it at the start of UTF-8 files
		}
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		p, err := parse(&r.Parser, string(text))
		if err != nil {
			return p, fmt.Errorf("line %d: %w", r.place.Line, err)
		}
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

func parse(parser *game.Parser, text string) (Position, error) {
	moves, scores, err := fields(text)
	if err != nil {
		return Position{}, err
	}
	state, err := parser.Parse(moves)
	if err != nil {
		return Position{}, err
	}
	p := Position{State: state, Scores: scores}
	return p, p.validate()
}

// fields splits a line into the position and its scores.
func fields(text string) (moves string, scores []int, err error) {
	if text[0] == '{' {
		var solved struct {
			Position string `json:"position"`
			Scores   []*int `json:"scores"`
		}
		if err := game.DecodeJSON([]byte(text), &solved); err != nil {
			return "", nil, err
		}
		if solved.Scores == nil {
			return "", nil, fmt.Errorf("json has no scores; evald solve writes them with --scores")
		}
		for _, s := range solved.Scores {
			if s == nil {
				scores = append(scores, solver.NoMove)
			} else {
				scores = append(scores, *s)
			}
		}
		return solved.Position, scores, nil
	}
	words := strings.Fields(text)
	for i, word := range words[1:] {
		s, err := strconv.Atoi(word)
		if err != nil {
			return "", nil, fmt.Errorf("score %d is %s, not a whole number", i+1, short.Quote(word))
		}
		scores = append(scores, s)
	}
	return words[0], scores, nil
}

func (p Position) validate() error {
	b := p.State.Board
	if len(p.Scores) != b.Actions() {
		return fmt.Errorf("has %d scores, but %v has %d moves", len(p.Scores), b.Rules(), b.Actions())
	}
	if r := b.Result(p.State.Position); r != game.Ongoing {
		return fmt.Errorf("the game is over (%v), there is no move to score", r)
	}
	for a, s := range p.Scores {
		switch legal := b.CanPlay(p.State.Position, a); {
		case legal != (s != solver.NoMove):
			return fmt.Errorf("move %d has score %d, but can be played: %v", a+1, s, legal)
		case legal && (s > b.Cells() || s < -b.Cells()):
			return fmt.Errorf("move %d has score %d, out of range", a+1, s)
		}
	}
	return nil
}

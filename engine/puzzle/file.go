package puzzle

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

//go:embed shipped.txt.gz
var shipped []byte

// Shipped returns the file of the puzzles that ship, compressed with gzip. Callers must not change it.
func Shipped() []byte { return shipped }

// A file has one puzzle per line, after a first line that begins with # and tells how the file was made:
//
//	# 10000 puzzles of 7x6x4: evald puzzles --rules 7x6x4 --count 10000 --seed 1
//	44455 3 win 1240 zugzwang
//
// A line contains the moves that lead to the position (after the rules, unless these are Connect4), the move to find, the result that the
// move keeps, the rating and the theme. Puzzles are ordered by rating. No two positions are equal or mirror images.

// String is the puzzle's line in a file, without its newline.
func (p *Puzzle) String() string {
	rules := p.Board.Rules()
	return fmt.Sprintf("%s %s %v %d %s", game.FormatNotation(rules, p.Moves), game.FormatMoves(rules, []int{p.Move}), p.Result, p.Rating, p.Theme)
}

// Format returns the text of a file; head is its first line, which tells how it was made.
func Format(head string, puzzles []Puzzle) []byte {
	text := fmt.Appendf(nil, "# %s\n", head)
	for i := range puzzles {
		text = fmt.Appendln(text, puzzles[i].String())
	}
	return text
}

// Compress compresses a file with gzip.
func Compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Maximum size of a line and of a file, in bytes.
const (
	mostLine = 1 << 10
	mostFile = 256 << 20
)

// Read reads a file, compressed or not. Errors contain the line's number.
func Read(in io.Reader) ([]Puzzle, error) {
	buffered := bufio.NewReader(in)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("puzzles: %w", err)
		}
		in = z
	} else {
		in = buffered
	}
	lines := bufio.NewScanner(io.LimitReader(in, mostFile))
	lines.Buffer(nil, mostLine)
	r := reader{seen: map[string]map[game.Position]bool{}}
	var puzzles []Puzzle
	number := 1
	for ; lines.Scan(); number++ {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		p, err := r.read(lines.Text())
		if err == nil && len(puzzles) > 0 && p.Rating < puzzles[len(puzzles)-1].Rating {
			err = fmt.Errorf("rating %d is less than that before it: puzzles are ordered by rating", p.Rating)
		}
		if err != nil {
			return nil, fmt.Errorf("puzzles: line %d: %w", number, err)
		}
		puzzles = append(puzzles, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("puzzles: line %d: %w", number, err)
	}
	return puzzles, nil
}

type reader struct {
	boards game.Boards
	seen   map[string]map[game.Position]bool // canonical positions so far, by rules
}

// read parses a line. A repeated position is an error.
func (r *reader) read(line string) (Puzzle, error) {
	p, err := parse(&r.boards, line)
	if err != nil {
		return p, err
	}
	rules := p.Board.Rules().String()
	if r.seen[rules] == nil {
		r.seen[rules] = map[game.Position]bool{}
	}
	key, _ := p.Board.Canonical(p.Position())
	if r.seen[rules][key] {
		return p, errors.New("the position, or its mirror image, is a duplicate")
	}
	r.seen[rules][key] = true
	return p, nil
}

// Parse parses a line with one puzzle.
func Parse(line string) (Puzzle, error) { return parse(new(game.Boards), line) }

func parse(boards *game.Boards, line string) (p Puzzle, err error) {
	words := strings.Fields(line)
	if len(words) != 5 {
		return p, fmt.Errorf("%s: has %d words, want 5: moves, the move to find, its result, rating and theme", short.Quote(line), len(words))
	}
	rules, moves, err := game.CutRules(words[0])
	if err != nil {
		return p, err
	}
	if p.Board, err = boards.Get(rules); err != nil {
		return p, err
	}
	at, actions, err := p.Board.ParseMoves(moves)
	if err != nil {
		return p, err
	}
	if p.Moves = actions; p.Board.Result(at) != game.Ongoing {
		return p, fmt.Errorf("moves %s: the game is over", short.Quote(moves))
	}
	for p.Move = range p.Board.Actions() {
		if game.FormatMoves(rules, []int{p.Move}) == words[1] {
			break
		}
	}
	if game.FormatMoves(rules, []int{p.Move}) != words[1] || !p.Board.CanPlay(at, p.Move) {
		return p, fmt.Errorf("move %s: cannot be played", short.Quote(words[1]))
	}
	switch words[2] {
	case game.Win.String():
		p.Result = game.Win
	case game.Draw.String():
		p.Result = game.Draw
	default:
		return p, fmt.Errorf("result %s: want win or draw", short.Quote(words[2]))
	}
	if p.Rating, err = strconv.Atoi(words[3]); err != nil || p.Rating < Least || p.Rating > Most {
		return p, fmt.Errorf("rating %s: want a number from %d to %d", short.Quote(words[3]), Least, Most)
	}
	if p.Theme = Theme(words[4]); !slices.Contains(themes, p.Theme) {
		return p, fmt.Errorf("theme %s: want one of %s", short.Quote(words[4]), themes)
	}
	return p, nil
}

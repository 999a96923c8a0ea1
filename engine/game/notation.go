package game

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// State is the content of one line of input: a position, its board and the player to move.
type State struct {
	Board *Board
	Position
	Mark int // the player to move, 1 or 2
}

// ParseError describes a mistake in a text: the line (0 if lines are not counted), the field, its value and the reason.
type ParseError struct {
	Line   int
	Field  string // rules, columns, rows, inarow, moves, board, mark, json
	Value  string
	Reason string
}

func (e *ParseError) Error() string {
	s := e.Field + " " + quote(e.Value) + ": " + e.Reason
	if e.Line > 0 {
		s = fmt.Sprintf("line %d: %s", e.Line, s)
	}
	return s
}

// quote quotes a value for an error message and shows at most 40 bytes of it.
func quote(s string) string {
	const most = 40
	if len(s) <= most {
		return strconv.Quote(s)
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strconv.Quote(s[:end]) + ".."
}

// symbols[a] is the text of action a. On boards with more actions, a move is a number, and dots separate moves.
const symbols = "123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// actionOf maps each symbol to its action, and all other bytes to -1.
var actionOf = func() (actions [256]int8) {
	for c := range actions {
		actions[c] = int8(strings.IndexByte(symbols, byte(c)))
	}
	return actions
}()

const emptyMoves = "-"

// FormatMoves writes actions in the order of play: "44554", "-" for none; on a board of more than 61 actions "12.4.60".
func FormatMoves(r Rules, actions []int) string {
	if len(actions) == 0 {
		return emptyMoves
	}
	var s strings.Builder
	for i, a := range actions {
		if r.Actions() <= len(symbols) {
			s.WriteByte(symbols[a])
			continue
		}
		if i > 0 {
			s.WriteByte('.')
		}
		s.WriteString(strconv.Itoa(a + 1))
	}
	return s.String()
}

// FormatNotation writes a game as one line of input: the rules as a prefix unless they are Connect4, then the moves.
func FormatNotation(r Rules, actions []int) string {
	if r == Connect4 {
		return FormatMoves(r, actions)
	}
	return r.String() + ":" + FormatMoves(r, actions)
}

// textSteps is the maximum number of positions at which Text looks for a game.
const textSteps = 1 << 12

// Text returns a position as a line of input: the notation of a game that leads to it or, if none
// is found soon, Kaggle's observation. Its game must not be over.
func (b *Board) Text(p Position) string {
	first := p.Own
	if p.Plies()%2 == 1 {
		first = p.Other()
	}
	moves := make([]int, 0, p.Plies())
	seen := map[Position]bool{}
	var reach func(Position) bool
	reach = func(now Position) bool {
		if now.All == p.All {
			return true
		}
		if seen[now] || len(seen) >= textSteps {
			return false
		}
		seen[now] = true
		mine := first
		if now.Plies()%2 == 1 {
			mine = p.All.AndNot(first)
		}
		for cells := b.Legal(now).And(mine); !cells.IsZero(); cells = cells.WithoutFirst() {
			moves = append(moves, b.Action(cells.First()))
			if reach(b.PlayCell(now, bit(cells.First()))) {
				return true
			}
			moves = moves[:len(moves)-1]
		}
		return false
	}
	if reach(Position{}) {
		return FormatNotation(b.rules, moves)
	}
	return State{b, p, 1 + p.Plies()%2}.Observation()
}

// CutRules splits a game's text into its rules, Connect4 if it has no prefix, and its moves, which it does not check.
func CutRules(s string) (r Rules, moves string, err error) {
	prefix, moves, found := strings.Cut(s, ":")
	if !found || strings.HasPrefix(s, "{") { // a JSON object has no prefix
		if strings.IndexByte(s, 'x') > 0 {
			if _, err := ParseRules(s); err == nil {
				return Connect4, s, &ParseError{Field: "moves", Value: s, Reason: "is a game without moves; its empty board is " + quote(s+":"+emptyMoves)}
			}
		}
		return Connect4, s, nil
	}
	r, err = ParseRules(prefix)
	return r, moves, err
}

// Parser reads positions in every notation. It caches boards, so that the board of a file is prepared only once. The zero value is ready
// for use.
type Parser struct {
	AnyPosition bool // accept boards that no game reaches (State.InTurn)
	boards      Boards
}

// Parse reads one position: moves ("44554", "4,4,5,5,4", "-"), rules and moves ("9x5x4:4455",
// "3x3x3free:51"), or a JSON object with Kaggle's board and mark. Errors are of type *ParseError.
func (p *Parser) Parse(s string) (State, error) {
	if strings.HasPrefix(s, "{") {
		return p.parseObservation(s)
	}
	rules, moves, err := CutRules(s)
	if err != nil {
		return State{}, err
	}
	b, err := p.boards.Get(rules)
	if err != nil {
		return State{}, err
	}
	pos, err := b.parseMoves(moves, nil)
	if err != nil {
		return State{}, err
	}
	return State{Board: b, Position: pos, Mark: pos.Mover()}, nil
}

// ParseMoves plays the moves of s from the empty board. It returns the position and the actions. Errors are of type *ParseError.
func (b *Board) ParseMoves(s string) (Position, []int, error) {
	var actions []int
	p, err := b.parseMoves(s, func(a int) { actions = append(actions, a) })
	return p, actions, err
}

// parseMoves calls played with every action, unless played is nil.
func (b *Board) parseMoves(s string, played func(a int)) (p Position, err error) {
	if s == emptyMoves {
		return p, nil
	}
	if played == nil {
		if p, legal := b.playText(s); legal {
			return p, nil
		}
	}
	fail := func(n int, format string, args ...any) (Position, error) {
		return Position{}, &ParseError{
			Field: "moves", Value: s,
			Reason: fmt.Sprintf("move %d %s", n, fmt.Sprintf(format, args...)),
		}
	}
	if s == "" {
		return Position{}, &ParseError{Field: "moves", Value: s, Reason: `is empty; the empty board is "-"`}
	}
	if s[0] == '{' {
		return Position{}, &ParseError{Field: "moves", Value: s, Reason: "is a board, and only moves are read here"}
	}
	next := b.nextMove
	if strings.IndexByte(s, ',') >= 0 {
		next = b.nextListed
	}
	for rest, n := s, 1; rest != ""; n++ {
		a, token := 0, ""
		a, token, rest = next(rest)
		switch {
		case a < 0 || a >= b.Actions():
			return fail(n, "is %s, not one of %s", quote(token), b.actionRange())
		case p.All == b.full:
			return fail(n, "comes after the board was full")
		case n > 1 && b.Won(p.Other()):
			return fail(n, "comes after the game was won")
		case !b.CanPlay(p, a):
			return fail(n, "goes to %s, which is full", quote(token))
		}
		p = b.Play(p, a)
		if played != nil {
			played(a)
		}
	}
	return p, nil
}

// playText is parseMoves for legal moves on boards of at most 64 bits and of actions with symbols. Otherwise legal is false.
func (b *Board) playText(s string) (p Position, legal bool) {
	if b.wide || b.Actions() > len(symbols) || s == "" {
		return p, false
	}
	var own, all, before uint64 // before: own before the last move
	for i := range len(s) {
		a := actionOf[s[i]]
		if a < 0 || int(a) >= len(b.cells) {
			return p, false
		}
		cell := b.cells64[a&63] &^ all
		if b.rules.Gravity {
			cell &= all + b.drop64[a&63]
		}
		if cell == 0 {
			return p, false
		}
		own, all, before = all^own, all|cell, own
	}
	// Stones never disappear, so a line completed by any earlier move is still there: these two tests find every line.
	p = Position{Own: Bits{Lo: own}, All: Bits{Lo: all}}
	return p, !b.Won(Bits{Lo: before}) && !b.Won(p.Own)
}

// nextMove cuts the first move off s. The action is -1 if the text is not a move; it may be greater than the board's last action.
func (b *Board) nextMove(s string) (a int, token, rest string) {
	if b.Actions() <= len(symbols) {
		size := 1
		if s[0] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(s)
		}
		return int(actionOf[s[0]]), s[:size], s[size:]
	}
	token, rest, dotted := strings.Cut(s, ".")
	n, err := strconv.Atoi(token)
	if err != nil || dotted && rest == "" || token[0] == '+' {
		return -1, token, rest
	}
	return n - 1, token, rest
}

// nextListed is nextMove for moves between commas, of which each is a symbol or, on boards with
// more than nine actions, also a number: 4,4,5,5.
func (b *Board) nextListed(s string) (a int, token, rest string) {
	token, rest, comma := strings.Cut(s, ",")
	n, err := strconv.Atoi(token)
	switch {
	case comma && rest == "": // what follows the last comma is no move
		return -1, s, rest
	case err == nil && token[0] != '+':
		return n - 1, token, rest
	case len(token) == 1 && b.Actions() <= len(symbols):
		return int(actionOf[token[0]]), token, rest
	}
	return -1, token, rest
}

func (b *Board) actionRange() string {
	n := b.Actions()
	if n > len(symbols) {
		return fmt.Sprintf("1 to %d (moves joined by dots)", n)
	}
	if n <= 9 {
		return fmt.Sprintf("1 to %d", n)
	}
	return fmt.Sprintf("1 to 9 and a to %c", symbols[n-1])
}

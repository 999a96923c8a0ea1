package play

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/engine/solver"
)

// Lines are the settings of a game line by line.
type Lines struct {
	Prompt string        // printed before each line that is read
	Visits int           // of the search for hint and eval
	Wait   time.Duration // time limit of hint, eval and solve
}

// DefaultLines are for scripts: no prompt.
var DefaultLines = Lines{Visits: 20_000, Wait: 10 * time.Second}

// plain is a game played line by line.
type plain struct {
	Config
	Lines
	session *Session
	analyst Analyst
	oracle  Oracle
	out     *bufio.Writer
}

const plainHelp = `a move (%s), or one of these; what follows on the line is not read
  undo   take back your move and the reply    redo   make it again
  hint   the best move by the search          eval   the search's value of each move
  solve  the exact score of each move         board  show the board and the moves
  swap   change sides                         new    a new game
  go     let an agent move that waits         quit
`

// Plain plays line by line: it writes the board as text, reads one move or command per line, and ends with the input or at
// quit. If ctx ends, the error wraps ctx.Err().
func Plain(ctx context.Context, c Config, l Lines, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &plain{
		Config: c, Lines: l, session: c.session(), out: bufio.NewWriter(out),
		analyst: Analyst{Board: c.Board, Evaluator: c.Evaluator, Leaves: 1}, oracle: Oracle{Board: c.Board, Threads: 1, Book: c.Book},
	}
	p.print("%v: X %s, O %s; \"help\" lists the commands\n", c.Board.Rules(), c.Players[0].Name, c.Players[1].Name)
	p.changed()
	lines := stream.NewReader(ctx, in)
	var one []stream.Line
	for more := true; more; {
		p.agents(ctx)
		p.print("%s", l.Prompt)
		if err := p.out.Flush(); err != nil {
			return err
		}
		var err error
		if one, more, err = lines.Next(one[:0], 1); err != nil {
			return err
		}
		for _, line := range one {
			if quit := p.line(ctx, line); quit {
				more = false
			}
		}
	}
	return errors.Join(ctx.Err(), p.out.Flush())
}

func (p *plain) print(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// changed prints the board, unless an agent's move will change it at once.
func (p *plain) changed() {
	if !p.session.AgentToMove() {
		p.board()
	}
}

// agents lets agents move as long as it is their turn.
func (p *plain) agents(ctx context.Context) {
	for p.session.AgentToMove() && ctx.Err() == nil {
		side := p.session.Side()
		player := p.Players[p.session.Seat(side)]
		p.out.Flush() // an error stays in the writer and ends the game at the next prompt
		action, err := player.Agent.Move(ctx, p.Board, p.session.Position())
		if err == nil {
			err = p.session.Play(action)
		}
		if err != nil {
			p.print("%s: %v; \"go\" lets it try again\n", player.Name, err)
			p.session.Pause(true)
			return
		}
		p.print("%c plays %s\n", letters[side], Name(p.Board, action))
		p.changed()
	}
}

// line runs the command of a line.
func (p *plain) line(ctx context.Context, l stream.Line) (quit bool) {
	if l.Err != nil {
		p.print("%v\n", l.Err)
		return false
	}
	s := p.session
	switch strings.ToLower(l.Text) {
	case "quit", "exit":
		return true
	case "help":
		p.print(plainHelp, s.legal())
	case "board":
		p.board()
	case "undo":
		p.shown(s.Undo(), "there is no move of yours to take back")
	case "redo":
		p.shown(s.Redo(), "nothing was taken back")
	case "new":
		s.Restart()
		p.changed()
	case "swap":
		s.Swap()
		p.changed()
	case "go":
		s.Pause(false)
		if !s.AgentToMove() {
			p.print("no agent is to move\n")
		}
	case "hint":
		p.search(ctx, func(r Report) { p.print("hint: %s\n", r.advice(p.Board)) })
	case "eval":
		p.search(ctx, p.values)
	case "solve":
		p.solve(ctx)
	default:
		p.move(l.Text)
	}
	return false
}

func (p *plain) move(text string) {
	s := p.session
	a := Action(p.Board, text)
	switch {
	case s.Result() != game.Ongoing:
		p.print("%s: the game is over; undo, new or quit\n", short.Quote(text))
		return
	case a < 0:
		p.print("%s is neither a command nor a move; %s\n", short.Quote(text), s.legal())
		return
	case !s.Human(s.Side()):
		p.print("%s: it is not your move; \"go\" lets the agent move\n", short.Quote(text))
		return
	}
	if err := s.Play(a); err != nil {
		p.print("%v\n", err)
		return
	}
	p.changed()
}

func (p *plain) shown(done bool, otherwise string) {
	if !done {
		p.print("%s\n", otherwise)
		return
	}
	p.changed()
}

// board writes the board, the moves and whose turn it is.
func (p *plain) board() {
	s, width := p.session, 3
	if len(Name(p.Board, p.Board.Actions()-1)) > 1 {
		width = 4
	}
	row := func(text func(column int) string) {
		line := ""
		for c := range p.Board.Columns() {
			line += centred(text(c), width)
		}
		p.print("%s\n", strings.TrimRight(line, " "))
	}
	for i, cells := range s.cells() {
		row(func(c int) string {
			if a := i*len(cells) + c; !p.Board.Rules().Gravity && s.board.CanPlay(s.now, a) {
				return Name(p.Board, a) // the name of the cell, to be typed
			}
			return cells[c].text
		})
	}
	if p.Board.Rules().Gravity {
		row(func(c int) string { return Name(p.Board, c) })
	}
	p.print("moves %s\n", game.FormatNotation(p.Board.Rules(), s.Moves()))
	if text := s.outcome(); text != "" {
		p.print("%s\n", text)
		return
	}
	p.print("%c to move: %s\n", letters[s.Side()], p.Players[s.Seat(s.Side())].Name)
}

func centred(text string, width int) string {
	space := max(0, width-len(text))
	return strings.Repeat(" ", space/2) + text + strings.Repeat(" ", space-space/2)
}

// over prints an answer to commands that make no sense in a finished game.
func (p *plain) over() bool {
	if p.session.Result() == game.Ongoing {
		return false
	}
	p.print("the game is over\n")
	return true
}

// search searches the position and shows the last report.
func (p *plain) search(ctx context.Context, show func(Report)) {
	if p.over() {
		return
	}
	p.out.Flush()
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	last := Report{Best: -1}
	p.analyst.Search(ctx, p.session.Position(), p.Visits, func(r Report) { last = r })
	switch {
	case last.Err != nil:
		p.print("search: %v\n", last.Err)
	case last.Best < 0:
		p.print("search: nothing found in %v\n", p.Wait)
	default:
		show(last)
	}
}

// values prints what the search found for each move.
func (p *plain) values(r Report) {
	p.print("%s visits of %s, for %c %s\n", count(r.Visits), p.Search, letters[p.session.Side()], r.valueText())
	for _, a := range p.legalActions() {
		m := r.Moves[a]
		p.print("%s: %s, %d visits\n", Name(p.Board, a), or(strings.TrimSpace(valueCell(m).text), "not tried"), m.Visits)
	}
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (p *plain) legalActions() []int {
	var all []int
	for a := range p.Board.Actions() {
		if p.Board.CanPlay(p.session.Position(), a) {
			all = append(all, a)
		}
	}
	return all
}

// solve prints the exact score of each move that was solved in time.
func (p *plain) solve(ctx context.Context) {
	if p.over() {
		return
	}
	p.out.Flush()
	ctx, cancel := context.WithTimeout(ctx, p.Wait)
	defer cancel()
	var last Exact
	p.oracle.Solve(ctx, p.session.Position(), nil, func(e Exact) { last = e.clone() })
	if last.Err != nil {
		p.print("solve: %v\n", last.Err)
		return
	}
	for _, a := range p.legalActions() {
		text := fmt.Sprintf("not solved within %v", p.Wait)
		if s := last.Scores[a]; s != solver.NoMove {
			text = scoreCell(s).text
		}
		p.print("%s: %s\n", Name(p.Board, a), text)
	}
}

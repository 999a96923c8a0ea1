//go:build !js

package play

import (
	"bufio"
	"cmp"
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

// Lines has the settings of Plain.
type Lines struct {
	Prompt string        // printed before each line that is read
	Visits int           // of the search for the commands hint and eval
	Wait   time.Duration // time limit of the commands hint, eval and solve
}

// DefaultLines are for scripts: no prompt.
var DefaultLines = Lines{Visits: 20_000, Wait: 10 * time.Second}

// plain is a game played line by line.
type plain struct {
	Config
	Lines
	session  *Session
	analyst  Analyst
	oracle   Oracle
	solution *solution // of the last position solved; nil: none
	out      *bufio.Writer
}

const (
	noUndo = "there is no move of yours to take back"
	noRedo = "nothing was taken back"
)

const plainHelp = `a line is a move (%s), or one of these
  undo   %-36s redo   make it again
  hint   the best move: exact after solve,    eval   the search's value of each move
         else by the search
  solve  the exact score of each move         board  show the board and the moves
  swap   change sides                         new    a new game
  go     let an agent move that waits         quit
`

// Plain plays line by line: it writes the board as text, and reads one move or command per line until the input ends or the command is quit.
// If l has a prompt, it then writes the summary of the game (parting). If ctx ends, the error wraps ctx.Err().
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
			more = !p.line(ctx, line) && more
		}
	}
	if l.Prompt != "" {
		p.print("%s", c.parting(p.session))
	}
	return errors.Join(ctx.Err(), p.out.Flush(), c.save(p.session))
}

func (p *plain) print(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// changed prints the board, unless an agent is to move.
func (p *plain) changed() {
	if !p.session.agentToMove() {
		p.board()
	}
}

// agents makes the agents' moves until it is a person's turn, the game is over, or an agent fails.
func (p *plain) agents(ctx context.Context) {
	for p.session.agentToMove() && ctx.Err() == nil {
		side := p.session.Side()
		player := p.Players[p.session.seat[side]]
		p.out.Flush() // the writer keeps an error, which ends the game at the next prompt
		action, err := player.Agent.Move(ctx, p.Board, p.session.now)
		if err == nil {
			err = p.session.Play(action)
		}
		if err != nil {
			p.print("%s: %v; \"go\" lets it try again\n", player.Name, err)
			p.session.paused = true
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
	if l.Followed {
		p.print("%s ..: a line is one move or one command, and nothing else\n", short.Quote(l.Text))
		return false
	}
	s := p.session
	switch strings.ToLower(l.Text) {
	case "quit", "exit":
		return true
	case "help":
		p.print(plainHelp, s.legal(), s.undoText())
	case "board":
		p.board()
	case "undo":
		p.shown(s.Undo(), noUndo)
	case "redo":
		p.shown(s.Redo(), noRedo)
	case "new":
		s.Restart()
		p.changed()
	case "swap":
		s.Swap()
		p.changed()
	case "go":
		s.paused = false
		if !s.agentToMove() {
			p.print("no agent is to move\n")
		}
	case "hint", "eval", "solve":
		if s.over() {
			p.print("the game is over\n")
			return false
		}
		p.out.Flush()
		ctx, cancel := context.WithTimeout(ctx, p.Wait)
		defer cancel()
		switch command := strings.ToLower(l.Text); {
		case command == "solve":
			p.solve(ctx)
		case command == "hint" && p.solution.of(s.now):
			p.print("hint: %s\n", p.solution.advice(p.Board, nil))
		default:
			p.search(ctx, command)
		}
	default:
		p.move(l.Text)
	}
	return false
}

func (p *plain) move(text string) {
	s := p.session
	a := Action(p.Board, text)
	switch {
	case s.over():
		p.print("%s: the game is over; undo, new or quit\n", short.Quote(text))
	case a < 0:
		p.print("%s is neither a command nor a move; %s\n", short.Quote(text), s.legal())
	case !s.humanToMove():
		p.print("%s: it is not your move; \"go\" lets the agent move\n", short.Quote(text))
	default:
		err := s.Play(a)
		p.shown(err == nil, fmt.Sprint(err))
	}
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
			space := max(0, width-len(text(c)))
			line += strings.Repeat(" ", space/2) + text(c) + strings.Repeat(" ", space-space/2)
		}
		p.print("%s\n", strings.TrimRight(line, " "))
	}
	for i, cells := range s.cells() {
		row(func(c int) string {
			if a := i*len(cells) + c; !p.Board.Rules().Gravity && s.board.CanPlay(s.now, a) {
				return Name(p.Board, a) // the name to type for this cell
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
	p.print("%c to move: %s\n", letters[s.Side()], p.Players[s.seat[s.Side()]].Name)
}

// search searches the position and prints the result: for the command hint the best move, for eval the value of each move.
func (p *plain) search(ctx context.Context, command string) {
	r := Report{Best: -1}
	p.analyst.Search(ctx, p.session.now, p.Visits, func(last Report) { r = last })
	switch {
	case r.Err != nil:
		p.print("search: %v\n", r.Err)
	case r.Best < 0:
		p.print("search: nothing found in %v\n", p.Wait)
	case command == "hint":
		p.print("hint: %s\n", r.advice(p.Board))
	default:
		p.print("%s visits of %s, for %c %s\n", count(r.Visits), p.Search, letters[p.session.Side()], r.valueText())
		for _, a := range p.session.legalMoves() {
			m := r.Moves[a]
			p.print("%s: %s, %d visits\n", Name(p.Board, a), cmp.Or(strings.TrimSpace(valueCell(m).text), "not tried"), m.Visits)
		}
	}
}

// solve prints the exact score of each move, as far as it is solved in time.
func (p *plain) solve(ctx context.Context) {
	var last Exact
	p.oracle.Solve(ctx, p.session.now, nil, func(e Exact) { last = e })
	if last.Err != nil {
		p.print("solve: %v\n", last.Err)
		return
	}
	p.solution = last.solution(p.session.now)
	for _, a := range p.session.legalMoves() {
		text := fmt.Sprintf("not solved within %v", p.Wait)
		if s := last.Scores[a]; s != solver.NoMove {
			text = scoreCell(s).text
		}
		p.print("%s: %s\n", Name(p.Board, a), text)
	}
}

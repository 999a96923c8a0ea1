//go:build !js

package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Player is one of the two players.
type Player struct {
	Name  string
	Agent agent.Agent // nil: a person
}

// Config describes a game.
type Config struct {
	Board     *game.Board
	Start     []int                                         // legal moves at the start of a game
	Players   [2]Player                                     // the first player moves first until the sides are swapped
	Evaluator *eval.Evaluator                               // for the search that evaluates moves
	Search    string                                        // the evaluator's name
	Evaluate  bool                                          // show the evaluation from the start
	Save      func(moves []int, first, second Player) error // is called when the game ends; may be nil
	Flags     []string                                      // further flags of evald play, for the command that continues the game
	Book      solver.Book                                   // of exact scores; may be nil
}

func (c *Config) session() *Session {
	s := Resume(c.Board, c.Start, len(c.Start), [2]bool{c.Players[0].Agent == nil, c.Players[1].Agent == nil})
	s.start = c.Start
	return s
}

// model is the game on a terminal, driven by bubbletea. Close must be called afterwards.
type model struct {
	config        Config
	session       *Session
	width, height int // of the terminal in characters
	column, row   int // of the cursor, from the top left; the row is only used without gravity

	evaluate, hint, help bool
	helpFrom             int    // first line of the help shown
	message              string // the last error

	ctx    context.Context // of all tasks
	cancel context.CancelFunc
	work   sync.WaitGroup // of all tasks
	seats  [2]sync.Mutex  // held while an agent thinks, so that it thinks about one position at a time

	thinking, searching, solving *task
	report                       *Report   // last message of searching
	exact                        *Exact    // last message of solving
	solution                     *solution // of the last position that was solved; nil: none
	analyst                      Analyst
	oracle                       Oracle
}

// Messages of tasks.
type (
	moved struct {
		task   *task
		action int
		err    error
	}
	searched struct {
		task   *task
		report Report
	}
	solved struct {
		task  *task
		exact Exact
	}
)

// newModel begins a game. All its background work ends with ctx.
func newModel(ctx context.Context, c Config) *model {
	ctx, cancel := context.WithCancel(ctx)
	return &model{
		config: c, session: c.session(), width: 80, height: 24, evaluate: c.Evaluate,
		column: c.Board.Columns() / 2, row: c.Board.Rows() / 2,
		ctx: ctx, cancel: cancel,
		analyst: Analyst{Board: c.Board, Evaluator: c.Evaluator, Leaves: agent.TimedLeaves},
		oracle:  Oracle{Board: c.Board, Threads: max(1, runtime.GOMAXPROCS(0)-1), Book: c.Book},
	}
}

// closing is the maximum time that Close waits for agents that ignore their context.
const closing = 3 * time.Second

// Close stops the background work and waits for it. It returns an error if the work does not stop in time.
func (m *model) Close() error {
	m.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(closing):
		return fmt.Errorf("play: an agent still thinks %v after it was told to stop", closing)
	}
}

// Run plays on a terminal until the user quits, which is not an error, or ctx ends, after which the error wraps ctx.Err(). Then Run restores
// the terminal and writes the summary of the game (parting).
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	m := newModel(ctx, c)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	err = errors.Join(err, m.Close(), c.save(m.session))
	if _, failed := io.WriteString(out, c.parting(m.session)); err == nil {
		err = failed
	}
	return err
}

// Init implements tea.Model. It starts the background work.
func (m *model) Init() tea.Cmd { return m.follow() }

// Update implements tea.Model. It handles a key, a new size, or a message of a task.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case moved:
		if msg.task == m.thinking {
			m.answer(msg)
			return m, m.follow()
		}
	case searched:
		if msg.task == m.searching {
			m.report = &msg.report
			return m, msg.task.next
		}
	case solved:
		if msg.task == m.solving {
			m.exact = &msg.exact
			m.solution = m.exact.solution(msg.task.position)
			return m, msg.task.next
		}
	}
	return m, nil
}

// key runs the command of a key. Capitals are commands on all boards. Lower-case letters are commands, too, unless they name a move of the
// board.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	text := k.String()
	if m.help && text != "ctrl+c" {
		m.help = m.scrollHelp(text)
		return nil
	}
	if a := m.typed(text); a >= 0 {
		m.put(a)
		return m.follow()
	}
	switch strings.ToLower(text) {
	case "ctrl+c", "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "left":
		m.column = max(0, m.column-1)
	case "right":
		m.column = min(m.config.Board.Columns()-1, m.column+1)
	case "up":
		m.row = max(0, m.row-1)
	case "down":
		m.row = min(m.config.Board.Rows()-1, m.row+1)
	case "enter":
		m.put(m.config.Board.CellAction(m.column, m.config.Board.Rows()-1-m.row))
	case "space":
		m.session.paused = !m.session.paused && !m.session.humanToMove()
	case "u":
		if !m.session.Undo() {
			m.message = noUndo
		}
	case "r":
		if !m.session.Redo() {
			m.message = noRedo
		}
	case "n":
		m.session.Restart()
	case "x":
		m.session.Swap()
	case "e":
		m.evaluate = !m.evaluate
	case "h":
		m.hint = !m.hint
	case "s":
		return m.toggleSolver()
	case "?":
		m.help, m.helpFrom = true, 0
	}
	return m.follow()
}

// typed returns the move that a key names, or -1.
func (m *model) typed(text string) int {
	b := m.config.Board
	if len(text) != 1 || text != strings.ToLower(text) || len(Name(b, b.Actions()-1)) > 1 {
		return -1
	}
	if a := Action(b, text); a >= 0 {
		return a
	}
	if text >= "1" && text <= "9" {
		m.message = fmt.Sprintf("there is no %s; %s", text, m.session.legal())
	}
	return -1
}

func (m *model) put(action int) {
	if !m.session.humanToMove() && !m.session.over() {
		m.message = "it is not your move"
		return
	}
	if err := m.session.Play(action); err != nil {
		m.message = err.Error()
	}
}

// answer plays an agent's move, or pauses the agents after an error.
func (m *model) answer(found moved) {
	m.thinking = nil
	err := found.err
	if err == nil {
		err = m.session.Play(found.action)
	}
	if err != nil {
		m.message = fmt.Sprintf("%s: %v", m.config.Players[found.task.seat].Name, err)
		m.session.paused = true
	}
}

// follow adapts the background work to the session: it stops work on other positions, and starts the work that the current position needs.
func (m *model) follow() tea.Cmd {
	p := m.session.now
	seat := m.session.seat[m.session.Side()]
	var commands []tea.Cmd

	thinks := m.session.agentToMove()
	if k := m.thinking; k != nil && (!thinks || k.position != p || k.seat != seat) {
		k.stop()
		m.thinking = nil
	}
	if thinks && m.thinking == nil {
		m.thinking = m.start(p, func(ctx context.Context, k *task) {
			m.seats[seat].Lock() // waits for the agent's previous work, whose context has ended
			defer m.seats[seat].Unlock()
			if ctx.Err() != nil {
				return
			}
			action, err := m.config.Players[seat].Agent.Move(ctx, m.config.Board, p)
			k.tell(moved{k, action, err})
		})
		m.thinking.seat = seat
		commands = append(commands, m.thinking.next)
	}

	if k := m.solving; k != nil && k.position != p {
		m.stopSolver()
	}
	if k := m.searching; k != nil && k.position != p {
		m.hint = false
	}
	wanted := !m.session.over() && (m.evaluate || m.hint)
	if k := m.searching; k != nil && (!wanted || k.position != p) {
		k.stop()
		m.searching, m.report = nil, nil
	}
	if wanted && m.searching == nil {
		m.searching = m.start(p, func(ctx context.Context, k *task) {
			m.analyst.Search(ctx, p, searchVisits, func(r Report) { k.tell(searched{k, r}) })
		})
		commands = append(commands, m.searching.next)
	}
	return tea.Batch(commands...)
}

func (m *model) toggleSolver() tea.Cmd {
	p := m.session.now
	switch {
	case m.solving != nil:
		m.stopSolver()
		return nil
	case m.session.over():
		m.message = "the game is over"
		return nil
	}
	known := m.known()
	m.solving = m.start(p, func(ctx context.Context, k *task) {
		m.oracle.Solve(ctx, p, known, func(e Exact) { k.tell(solved{k, e}) })
	})
	return m.solving.next
}

func (m *model) stopSolver() {
	m.solving.stop()
	m.solving, m.exact = nil, nil
}

// task is background work on one position. It keeps only the newest message for its reader.
type task struct {
	position game.Position
	seat     int // of the agent that thinks
	stop     context.CancelFunc
	news     chan tea.Msg // capacity 1; closed when the work is done
}

// start starts work at once, not in a tea.Cmd: a command that is returned while the program ends never runs.
func (m *model) start(p game.Position, work func(ctx context.Context, k *task)) *task {
	ctx, stop := context.WithCancel(m.ctx)
	k := &task{position: p, stop: stop, news: make(chan tea.Msg, 1)}
	m.work.Go(func() {
		defer close(k.news)
		defer stop()
		work(ctx, k)
	})
	return k
}

// tell replaces the message that waits to be read. Only the task's own goroutine calls it.
func (k *task) tell(m tea.Msg) {
	select {
	case <-k.news:
	default:
	}
	k.news <- m
}

// next waits for a message. It returns nil when the work is done.
func (k *task) next() tea.Msg { return <-k.news }

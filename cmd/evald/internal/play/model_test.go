package play

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// driver drives a model as bubbletea does, without a terminal.
type driver struct {
	*model
	t        *testing.T
	messages chan tea.Msg
	quit     bool
}

func drive(t *testing.T, c Config) *driver {
	d := &driver{model: newModel(t.Context(), c), t: t, messages: make(chan tea.Msg, 100)}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	d.run(d.Init())
	return d
}

func (d *driver) run(command tea.Cmd) {
	if command == nil {
		return
	}
	go func() {
		switch msg := command().(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				d.run(c)
			}
		default:
			d.messages <- msg
		}
	}()
}

func (d *driver) take(msg tea.Msg) {
	if _, ok := msg.(tea.QuitMsg); ok {
		d.quit = true
	}
	_, command := d.Update(msg)
	d.run(command)
}

// press presses keys, each a character or a name such as enter.
func (d *driver) press(keys ...string) {
	for _, k := range keys {
		d.take(keyPress(k))
	}
}

func keyPress(k string) tea.KeyPressMsg {
	special := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
		"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	}
	if msg, ok := special[k]; ok {
		return msg
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

// until handles messages until done returns true.
func (d *driver) until(what string, done func() bool) {
	d.t.Helper()
	for !done() {
		select {
		case msg := <-d.messages:
			d.take(msg)
		case <-time.After(time.Minute):
			d.t.Fatalf("%s: never", what)
		}
	}
}

func (d *driver) moves() string { return game.FormatMoves(d.config.Board.Rules(), d.session.Moves()) }

// shows checks that the screen contains the texts.
func (d *driver) shows(texts ...string) {
	d.t.Helper()
	screen := escapes.ReplaceAllString(d.View().Content, "")
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			d.t.Errorf("the screen does not show %q:\n%s", text, screen)
		}
	}
}

func TestWholeGame(t *testing.T) {
	d := drive(t, config(t, "-", &Player{"script", &script{moves: []int{0, 1, 2}}}))
	for _, key := range []string{"4", "enter", "4"} {
		d.press(key)
		d.until("the reply to "+key, func() bool { return d.humanTurn() })
	}
	d.shows("X to move: you", "moves   414243")
	d.press("4")
	d.shows("X wins; N begins a new game", "[X]", "moves   4142434")
	d.press("4")
	d.shows("the game is over")
	d.press("u")
	d.shows("X to move: you", "moves   414243")
	d.press("u", "u", "u", "u")
	d.shows("there is no move of yours to take back", "moves   -")
	d.press("r", "r")
	d.shows("moves   4142")
	d.press("9")
	d.shows("there is no 9; legal moves are 1 2 3 4 5 6 7")
	d.press("n")
	d.shows("moves   -")
	d.press("?")
	d.shows("any key goes back")
	d.press("4")
	d.shows("moves   -") // the key only closed the help
	d.press("q")
	d.until("the end", func() bool { return d.quit })
}

// An agent stops thinking when the position changes, and at the end.
func TestThinkingStops(t *testing.T) {
	agent := newThinker()
	d := drive(t, config(t, "-", &Player{"thinker", agent}))
	d.press("4")
	about := within(t, agent.began)
	d.shows("O thinks: thinker", "moves   4")
	d.press("5")
	d.shows("it is not your move", "moves   4")
	d.press("u")
	if stopped := within(t, agent.stopped); stopped != about {
		t.Errorf("stopped thinking about %+v, want %+v", stopped, about)
	}
	d.press("3")
	within(t, agent.began)
	d.press("space")
	within(t, agent.stopped)
	d.shows("O waits: thinker; space lets it move")
	d.press("space")
	within(t, agent.began)
	d.press("x") // now the person is to move
	within(t, agent.stopped)
	d.shows("O to move: you")
	d.press("x")
	about = within(t, agent.began)
	gametest.OK(t, d.Close())
	if len(agent.stopped) != 1 || <-agent.stopped != about {
		t.Error("Close came back while the agent was thinking")
	}
}

// A new game and a swap of agents stop the old work, although an agent is still to move.
func TestThinkingRestarts(t *testing.T) {
	one, two := newThinker(), newThinker()
	c := config(t, "-", nil)
	c.Players = [2]Player{{"one", one}, {"two", two}}
	d := drive(t, c)
	within(t, one.began)
	d.press("x")
	within(t, one.stopped)
	within(t, two.began)
	d.shows("X thinks: two")

	// Each agent makes a move; then the first one thinks, and so it does after the new game begins.
	one = newThinker(3)
	c.Players = [2]Player{{"one", one}, {"two", &script{[]int{3}}}}
	d = drive(t, c)
	d.until("two moves", func() bool { return len(d.session.Moves()) == 2 })
	before := within(t, one.began)
	d.press("n")
	if stopped := within(t, one.stopped); stopped != before {
		t.Errorf("stopped thinking about %+v, want %+v", stopped, before)
	}
	if now := within(t, one.began); now != (game.Position{}) {
		t.Errorf("thinks about %+v in a new game", now)
	}
}

// deaf is an agent that ignores its context and counts how often it is asked while it thinks.
type deaf struct {
	began, release chan struct{}
	thinking, both atomic.Int32
}

func (a *deaf) Move(context.Context, *game.Board, game.Position) (int, error) {
	if a.thinking.Add(1) > 1 {
		a.both.Add(1)
	}
	a.began <- struct{}{}
	<-a.release
	a.thinking.Add(-1)
	return 0, nil
}

// An agent is asked one question at a time, however slowly it stops.
func TestOneQuestionAtATime(t *testing.T) {
	a := &deaf{began: make(chan struct{}, 100), release: make(chan struct{})}
	d := drive(t, config(t, "-", &Player{"deaf", a}))
	d.press("4")
	within(t, a.began)
	for range 5 {
		d.press("u", "4")
		for range 1000 {
			runtime.Gosched() // a second move would begin now
		}
	}
	close(a.release)
	d.until("the move", func() bool { return len(d.session.Moves()) == 2 })
	if n := a.both.Load(); n > 0 || d.moves() != "41" {
		t.Errorf("asked %d times while it was thinking; moves %s, want 41", n, d.moves())
	}
}

// An agent's failure or illegal move is shown, and the agent can try again.
func TestBadAgents(t *testing.T) {
	d := drive(t, config(t, "444444", &Player{"script", &script{moves: []int{3, 7, -1, 0}}}))
	key := "1"
	for _, want := range []string{
		"4 cannot be played; legal moves are 1 2 3 5 6 7", "move 8 cannot be played; legal moves are 1 2", "move 0 cannot be played",
	} {
		d.press(key)
		d.until("an answer", func() bool { return d.message != "" })
		d.shows("script: "+want, "O waits")
		key = "space"
	}
	d.press(key)
	d.until("a move", func() bool { return d.humanTurn() })
	d.shows("moves   44444411")
	d.press("1")
	d.until("an answer", func() bool { return d.message != "" })
	d.shows("script: no more moves in the script", "moves   444444111")
}

// Two people move in turn, and take back one move at a time.
func TestTwoPeople(t *testing.T) {
	d := drive(t, config(t, "-", nil))
	d.press("4", "4", "5")
	d.shows("O to move: person", "moves   445")
	d.press("u")
	d.shows("X to move: you", "moves   44")
	d.press("u", "r", "3", "?")
	d.shows("U            take back the last move")
	d.press("q", "q")
	d.until("the end", func() bool { return d.quit })
}

// Two agents play a whole game; after an undo they wait.
func TestAgentsAlone(t *testing.T) {
	c := config(t, "-", nil)
	c.Players = [2]Player{*random(t, 0), *random(t, 1)}
	d := drive(t, c)
	d.until("the end", func() bool { return d.session.Result() != game.Ongoing })
	n := len(d.session.Moves())
	d.press("u")
	d.shows("waits: random")
	if got := len(d.session.Moves()); got != n-1 {
		t.Errorf("%d moves after undo, want %d", got, n-1)
	}
	d.press("space")
	d.until("the end", func() bool { return d.session.Result() != game.Ongoing })
}

// The search follows the position. Late reports of an earlier search are not taken for the current one.
func TestSearch(t *testing.T) {
	c := config(t, "444", nil)
	c.Evaluate = true
	d := drive(t, c)
	old := d.searching
	d.until("a report", func() bool { return d.report != nil && d.report.Visits > 1000 })
	d.shows("for O (value", "visits, bitsquares")
	d.press("4")
	if d.report != nil || d.searching == old {
		t.Fatal("the report on the last position is still shown")
	}
	d.take(searched{old, Report{Visits: 77}})
	if d.report != nil {
		t.Error("a report on an old position is shown")
	}
	d.until("a report", func() bool { return d.report != nil })
	d.shows("for X (value")
	d.press("e")
	if d.searching != nil || d.report != nil {
		t.Error("the search continues after its report was hidden")
	}
	d.press("h")
	d.until("a hint", func() bool { return d.report != nil && d.report.Best >= 0 })
	d.shows("hint  ", "expected ", "*"+Name(c.Board, d.report.Best)+"*")
	d.press("1")
	if d.searching != nil || d.hint {
		t.Error("the hint for the last position is still searched")
	}
}

// A won position is proved, even if a move wins at once and the tree has no moves. A threat is answered.
func TestSearchProves(t *testing.T) {
	for position, want := range map[string]struct {
		result game.Result
		best   int
	}{"121212": {game.Win, 0}, "12121": {game.Ongoing, 0}, "4455": {game.Win, 2}} {
		c := config(t, position, nil)
		s := Analyst{Board: c.Board, Evaluator: c.Evaluator}
		var last Report
		calls := 0
		s.Search(t.Context(), c.session().Position(), 3000, func(r Report) { last, calls = r, calls+1 })
		if last.Result != want.result && want.result != game.Ongoing || last.Best != want.best || !last.Finished || last.Err != nil || calls == 0 {
			t.Errorf("%s: %+v after %d reports, want best %d, %v", position, last, calls, want.best, want.result)
		}
		if len(last.Line) == 0 || last.Line[0] != want.best {
			t.Errorf("%s: line %v, want it to begin with %d", position, last.Line, want.best)
		}
	}
}

func TestSearchFails(t *testing.T) {
	c := config(t, "-", nil)
	c.Evaluate = true
	c.Evaluator = evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error { return errors.New("device is gone") }})
	d := drive(t, c)
	d.until("a report", func() bool { return d.report != nil })
	d.shows("search  ", "device is gone")
}

// late is a context whose deadline has passed as soon as *passed says so, and whose timer does not fire.
type late struct {
	context.Context
	passed *bool
}

func (c late) Deadline() (time.Time, bool) {
	if *c.passed {
		return time.Now().Add(-time.Millisecond), true
	}
	return time.Now().Add(time.Hour), true
}

// If the evaluator notices the deadline first, the search has ended and not failed: what was found stays.
func TestSearchLate(t *testing.T) {
	c := config(t, "44", nil)
	batches, passed := 0, false
	s := Analyst{Board: c.Board, Evaluator: evaltest.Raw(&evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error {
		if batches++; batches < 40 {
			return nil
		}
		passed = true
		return context.DeadlineExceeded
	}})}
	var last Report
	s.Search(late{t.Context(), &passed}, c.session().Position(), 3000, func(r Report) { last = r })
	if last.Err != nil || last.Best < 0 || last.Visits == 0 {
		t.Errorf("%+v, want what was found in 40 batches", last)
	}
}

// The solver's scores, one move after the other, are the same as those that it finds for all moves at once.
func TestSolver(t *testing.T) {
	const position = "2252576253462244111563"
	c := config(t, position, nil)
	d := drive(t, c)
	d.press("s")
	d.until("all scores", func() bool { return d.exact != nil && d.exact.Finished })
	s := gametest.Must(solver.New(c.Board, solver.Options{}))(t)
	want, _, err := s.Scores(t.Context(), d.session.Position())
	gametest.OK(t, err)
	if !slices.Equal(d.exact.Scores, want) {
		t.Errorf("scores %v, want %v", d.exact.Scores, want)
	}
	d.shows("exact   6 moves solved, the best 4: -2 for X")
	d.press("s")
	if d.solving != nil || d.exact != nil {
		t.Error("s again does not take the scores away")
	}

	// The empty board takes seconds; the test does not wait for it.
	d = drive(t, config(t, "-", nil))
	d.press("s")
	d.until("progress", func() bool { return d.exact != nil && d.exact.Legal == 7 })
	d.shows("exact   0 of 7 moves", "S stops")
	d.press("4")
	if d.solving != nil {
		t.Error("the solver still works on the last position")
	}
}

// On a board with a move e, a lower-case e plays it, and a capital E is the command.
func TestLetters(t *testing.T) {
	d := drive(t, config(t, "20x5x4:-", nil))
	d.press("e", "h")
	if d.moves() != "eh" || d.evaluate || d.hint {
		t.Errorf("moves %s, evaluate %v, hint %v; want eh and neither", d.moves(), d.evaluate, d.hint)
	}
	d.press("E")
	if !d.evaluate {
		t.Error("E does not evaluate")
	}
	d.shows("H hint  E evaluation  s solve")
	d = drive(t, config(t, "9x9x5free:-", nil))
	d.press("1", "up", "up", "left", "enter")
	if d.moves() != "22" { // row 3 of 9, column 4
		t.Errorf("moves %s, want 22", d.moves())
	}
}

// No key on any size of terminal causes a panic, and the screen always fits.
func TestAnyKeys(t *testing.T) {
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { anyKeys(t, seed) })
	}
}

func anyKeys(t *testing.T, seed int) {
	keys := strings.Split("1 2 3 4 5 6 7 8 9 a e h u r n x ? space enter left right up down E H", " ")
	r := gametest.Rand(uint64(seed))
	boards := gametest.Boards()
	b := boards[r.IntN(len(boards))]
	c := config(t, b.Rules().String()+":-", random(t, seed))
	c.Evaluate = r.IntN(2) == 0
	d := drive(t, c)
	for range 40 {
		d.take(tea.WindowSizeMsg{Width: 1 + r.IntN(100), Height: 1 + r.IntN(40)})
		d.press(keys[r.IntN(len(keys))])
		select {
		case msg := <-d.messages:
			d.take(msg)
		default:
		}
		lines := strings.Split(escapes.ReplaceAllString(d.View().Content, ""), "\n")
		if len(lines) > d.height {
			t.Fatalf("%v: %d lines on a screen of %d", b.Rules(), len(lines), d.height)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > d.width {
				t.Fatalf("%v: %q has %d characters on a screen of %d", b.Rules(), line, n, d.width)
			}
		}
	}
}

// The whole program, with keys from a pipe, ends while an agent is thinking.
func TestProgram(t *testing.T) {
	agent := newThinker()
	c := config(t, "-", &Player{"thinker", agent})
	c.Evaluate = true
	for _, end := range []string{"key", "context"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		in, keys := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Run(ctx, c, in, io.Discard) }()
		fmt.Fprint(keys, "4")
		within(t, agent.began)
		if end == "key" {
			fmt.Fprint(keys, "q")
		} else {
			cancel()
		}
		if err := within(t, done); end == "key" && err != nil || end == "context" && !errors.Is(err, context.Canceled) {
			t.Errorf("ended by a %s: error %v", end, err)
		}
		within(t, agent.stopped)
		keys.Close()
	}
}

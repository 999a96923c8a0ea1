package analyze

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval/evaltest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/solver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files anew")

func config(t *testing.T, parallel int) Config {
	t.Helper()
	e := gametest.Must(heuristic.New(eval.Bitsquares))(t)
	c := Config{Evaluator: e, Model: func(game.Rules) string { return "bitsquares" }, Parallel: parallel, Queue: 1000}
	c.Search = ask.Search{Visits: 100, How: ask.How{Exact: solver.NoProbes}, Batch: 16}
	return c
}

var fraction = regexp.MustCompile(`-?\d+\.\d+(e-\d+)?|\d+e-\d+`)

// tidy sorts the lines, whose order is that in which searches end, and rounds numbers that differ between processors.
func tidy(out string) string {
	lines := slices.Sorted(strings.Lines(out))
	text := regexp.MustCompile(`"seconds":[^,}]+`).ReplaceAllString(strings.Join(lines, ""), `"seconds":0`)
	return fraction.ReplaceAllStringFunc(text, func(s string) string {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			panic(err)
		}
		return strconv.FormatFloat(math.Round(x*1e4)/1e4, 'f', -1, 64)
	})
}

func TestTranscript(t *testing.T) {
	queries, err := os.ReadFile("testdata/queries.jsonl")
	gametest.OK(t, err)
	for _, parallel := range []int{1, 3, 100} {
		var out bytes.Buffer
		done, err := Run(t.Context(), config(t, parallel), bytes.NewReader(queries), &out)
		if err != nil || done != (Summary{Queries: 44, Refused: 29}) {
			t.Errorf("%d at once: %+v, %v", parallel, done, err)
		}
		got, path := tidy(out.String()), filepath.Join("testdata", "answers.jsonl")
		if *update {
			gametest.OK(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want := gametest.Must(os.ReadFile(path))(t)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%d at once, %s (-want +got; go test -update writes it anew):\n%s", parallel, path, diff)
		}
	}
}

// A position's answer does not depend on the positions that are searched beside it.
func TestCompany(t *testing.T) {
	for _, selection := range []mcts.Selection{mcts.PUCT, mcts.Gumbel} {
		t.Run(selection.String(), func(t *testing.T) {
			company(t, selection)
		})
	}
}

func company(t *testing.T, selection mcts.Selection) {
	c := config(t, 1)
	c.Search.Selection = selection
	random := gametest.Rand(1)
	var queries strings.Builder
	want := map[string]Answer{}
	for i := range 45 {
		b := game.MustBoard([]game.Rules{game.Connect4, game.TicTacToe, {Rows: 4, Columns: 5, InARow: 3, Gravity: true}}[i%3])
		var p game.Position
		var moves []int
		for range random.IntN(8) {
			a := b.Action(b.Legal(p).Nth(random.IntN(b.Legal(p).OnesCount())).First())
			if b.Result(b.Play(p, a)) != game.Ongoing {
				break
			}
			p, moves = b.Play(p, a), append(moves, a)
		}
		id, text := strconv.Itoa(i), game.FormatNotation(b.Rules(), moves)
		alone := c.Search
		alone.Visits, alone.Exact = 1+random.IntN(200), []solver.Nodes{solver.NoProbes, 300}[i/3%2]
		fmt.Fprintf(&queries, "{\"id\":%q,\"moves\":%q,\"visits\":%d,\"exact\":%v,\"priority\":%d}\n", id, text, alone.Visits, alone.Exact, random.IntN(3))
		tree := gametest.Must(mcts.New(b, alone.Config(c.Evaluator.Backend())))(t)
		tree.Reset(p)
		gametest.OK(t, mcts.Search(t.Context(), c.Evaluator, []*mcts.Tree{tree}, mcts.Limits{Visits: alone.Visits, Batch: 1}))
		want[id] = Describe(text, "bitsquares", game.State{Board: b, Position: p, Mark: p.Mover()}, tree)
	}
	for _, parallel := range []int{1, 7, 300} {
		c.Parallel = parallel
		var out bytes.Buffer
		gametest.Must(Run(t.Context(), c, strings.NewReader(queries.String()), &out))(t)
		got := map[string]Answer{}
		for line := range strings.Lines(out.String()) {
			r := parse(t, line)
			got[r.ID] = *r.Answer
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d at once (-alone +together):\n%s", parallel, diff)
		}
	}
}

func parse(t *testing.T, line string) (r reply) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return r
}

// dialogue is a run that a test talks to line by line.
type dialogue struct {
	t       *testing.T
	in      *io.PipeWriter
	out     *bufio.Reader
	done    chan error
	summary Summary
}

func talk(ctx context.Context, t *testing.T, c Config) *dialogue {
	in, to := io.Pipe()
	from, out := io.Pipe()
	d := &dialogue{t: t, in: to, out: bufio.NewReader(from), done: make(chan error, 1)}
	go func() {
		var err error
		d.summary, err = Run(ctx, c, in, out)
		in.Close()
		out.Close()
		d.done <- err
	}()
	return d
}

func (d *dialogue) say(lines ...string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, strings.Join(lines, "\n")+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

func (d *dialogue) hear() reply {
	d.t.Helper()
	line, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatal(err)
	}
	return parse(d.t, line)
}

// end closes the input and reads the remaining replies.
func (d *dialogue) end() (rest []reply, err error) {
	d.in.Close()
	for {
		line, end := d.out.ReadString('\n')
		if end != nil {
			return rest, <-d.done
		}
		rest = append(rest, parse(d.t, line))
	}
}

// A search without an end sends reports, lets other searches run, and can be terminated by its id.
func TestTerminate(t *testing.T) {
	d := talk(t.Context(), t, config(t, 2))
	d.say(`{"id":"endless","moves":"-","visits":1000000000,"seconds":604800,"report_every":0.01}`)
	visits := 0
	for more := 0; more < 3; { // on a busy machine a report may come before the next visit
		r := d.hear()
		if r.ID != "endless" || r.Ended != "" || r.Answer == nil || sum(r.Visits) < visits {
			t.Fatalf("a report after %d visits: %+v", visits, r)
		}
		if sum(r.Visits) > visits {
			visits = sum(r.Visits)
			more++
		}
	}
	d.say(`{"id":"endless","moves":"1"}`, `{"id":"short","moves":"44","visits":10}`, `{"id":"other game","moves":"5x5x4free:d","visits":10}`)
	heard := map[string]reply{}
	for len(heard) < 3 {
		if r := d.hear(); r.Ended != "" || r.Error != "" {
			heard[r.ID] = r
		}
	}
	if heard["endless"].Field != "id" || heard["short"].Ended != byVisits || heard["other game"].Ended != byVisits {
		t.Errorf("while a search runs: %+v", heard)
	}
	d.say(`{"id":"t","action":"terminate","terminate_id":"endless"}`)
	var last []reply
	for len(last) < 2 {
		if r := d.hear(); r.Ended != "" || r.Action != "" {
			last = append(last, r)
		}
	}
	slices.SortFunc(last, func(a, b reply) int { return strings.Compare(a.ID, b.ID) })
	if last[0].ID != "endless" || last[0].Ended != byTerminate || sum(last[0].Visits) < visits {
		t.Errorf("what was terminated answers %+v", last[0])
	}
	if last[1].ID != "t" || last[1].Terminated == nil || *last[1].Terminated != 1 || last[1].TerminateID != "endless" {
		t.Errorf("terminate answers %+v", last[1])
	}
	d.say(`{"id":"endless","moves":"-","visits":1000000000,"seconds":0.02}`) // its id is free again
	if r := d.hear(); r.Ended != bySeconds || r.Seconds < 0.02 {
		t.Errorf("after its time a search answers %+v", r)
	}
	if rest, err := d.end(); len(rest) != 0 || err != nil || d.summary != (Summary{Queries: 6, Refused: 1}) {
		t.Errorf("in the end %+v, %v, %+v", rest, err, d.summary)
	}
}

func sum(x []int) (n int) {
	for _, v := range x {
		n += v
	}
	return n
}

// gate is an evaluator that waits for permission, or fails.
type gate struct {
	eval.Backend
	entered, leave chan struct{}
	failures       chan error // one for each batch that must fail
}

func newGate(t *testing.T) (*gate, Config) {
	c := config(t, 1)
	g := &gate{c.Evaluator.Backend(), make(chan struct{}, 1000), make(chan struct{}), make(chan error, 10)}
	c.Evaluator = evaltest.Raw(g)
	return g, c
}

func (g *gate) Compute(ctx context.Context, b *eval.Batch) error {
	g.entered <- struct{}{}
	<-g.leave
	select {
	case err := <-g.failures:
		return err
	default:
		return g.Backend.Compute(ctx, b)
	}
}

// Waiting searches begin by priority, then in order of arrival. Terminated ones never begin.
func TestPriority(t *testing.T) {
	g, c := newGate(t)
	d := talk(t.Context(), t, c)
	d.say(`{"id":"first","moves":"-","visits":2}`)
	<-g.entered
	d.say(`{"id":"low","moves":"1","visits":2,"priority":-1}`, `{"id":"a","moves":"3x3x3free:1","visits":2}`, `{"id":"b","moves":"2","visits":2}`,
		`{"id":"never","moves":"2","priority":9}`, `{"id":"high","moves":"3","visits":2,"priority":1}`, `{"id":"t","action":"terminate","terminate_id":"never"}`)
	if r := d.hear(); r.ID != "never" || r.Ended != byTerminate || r.Answer != nil {
		t.Errorf("what never began answers %+v", r)
	}
	if r := d.hear(); r.ID != "t" || *r.Terminated != 1 {
		t.Errorf("terminate answers %+v", r)
	}
	close(g.leave)
	rest, err := d.end()
	var order []string
	for _, r := range rest {
		order = append(order, r.ID)
	}
	if diff := cmp.Diff([]string{"first", "high", "a", "b", "low"}, order); diff != "" || err != nil {
		t.Errorf("%v, order (-want +got):\n%s", err, diff)
	}
}

// If an evaluator fails, the searches under way fail, and no others.
func TestEvaluatorFails(t *testing.T) {
	g, c := newGate(t)
	c.Parallel = 2
	g.failures <- errors.New("the device is gone")
	d := talk(t.Context(), t, c)
	d.say(`{"id":"a","moves":"-"}`)
	<-g.entered
	close(g.leave)
	if r := d.hear(); r.ID != "a" || r.Error != "the device is gone" {
		t.Errorf("%+v", r)
	}
	d.say(`{"id":"a","moves":"-"}`)
	if r := d.hear(); r.ID != "a" || r.Ended != byVisits {
		t.Errorf("after that: %+v", r)
	}
	if rest, err := d.end(); len(rest) != 0 || err != nil {
		t.Errorf("%v, %v", rest, err)
	}
}

// A board that the evaluator does not support fails only its own query.
func TestTreeFails(t *testing.T) {
	c := config(t, 1)
	c.Evaluator = eval.New(new(evaltest.Limited), eval.Options{})
	d := talk(t.Context(), t, c)
	d.say(`{"id":"a","moves":"9x5x4:-"}`, `{"id":"b","moves":"-"}`)
	rest, err := d.end()
	slices.SortFunc(rest, func(a, b reply) int { return strings.Compare(a.ID, b.ID) })
	if err != nil || len(rest) != 2 || !strings.Contains(rest[0].Error, "7x6x4 alone") || rest[1].Ended != byVisits {
		t.Errorf("%v, %+v", err, rest)
	}
}

// An interrupt ends the reading and drops waiting searches. Searches under way are answered, completely if they are short.
func TestInterrupt(t *testing.T) {
	g, c := newGate(t)
	ctx, cancel := context.WithCancel(t.Context())
	d := talk(ctx, t, c)
	d.say(`{"id":"a","moves":"-","visits":5}`)
	<-g.entered
	d.say(`{"id":"b","moves":"1","visits":5}`, `nonsense`)
	d.hear() // the reply to the nonsense: b is accepted
	cancel()
	close(g.leave)
	rest, err := d.end()
	if len(rest) != 1 || rest[0].ID != "a" || rest[0].Ended != byVisits || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, error %v; want the answer to a", rest, err)
	}
	if d.summary != (Summary{Queries: 2, Refused: 1}) {
		t.Errorf("%+v", d.summary)
	}
}

// After an interrupt, a long search ends with what it has.
func TestInterruptLong(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := talk(ctx, t, config(t, 1))
	d.say(`{"id":"endless","moves":"-","visits":1000000000}`, `{"id":"waits","moves":"-"}`, `nonsense`)
	d.hear()
	cancel()
	rest, err := d.end()
	if len(rest) != 1 || rest[0].ID != "endless" || rest[0].Ended != byTerminate || rest[0].Answer == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, error %v; want endless, terminated", rest, err)
	}
}

// An interrupt counts even if all queries have been read. If the evaluator does not answer, neither does the search.
func TestInterruptedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, 1)
		c.Evaluator = evaltest.Raw(deaf{})
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		queries := `{"id":"endless","moves":"-","visits":1000000000}` + "\n" + `{"id":"waits","moves":"-"}` + "\n"
		ended := make(chan error)
		var summary Summary
		go func() {
			var err error
			summary, err = Run(ctx, c, strings.NewReader(queries), &out)
			ended <- err
		}()
		synctest.Wait() // all is read, and the first search waits for its evaluator
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || summary != (Summary{GivenUp: 1}) || out.Len() > 0 {
			t.Errorf("error %v, %+v, %s", err, summary, out.String())
		}
	})
}

// deaf is an evaluator that never answers.
type deaf struct{}

func (deaf) Attributes() eval.Attributes { return eval.Attributes{Rows: 64, Invariant: true} }

func (deaf) Compute(ctx context.Context, _ *eval.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// If the answers cannot be written, the run ends, even with positions left to search and input left to read.
func TestBrokenOutput(t *testing.T) {
	in, to := io.Pipe()
	defer to.Close()
	go io.WriteString(to, "{\"id\":\"endless\",\"moves\":\"-\",\"visits\":1000000000,\"seconds\":9999}\n{\"id\":\"a\",\"moves\":\"-\",\"visits\":5}\n")
	if _, err := Run(t.Context(), config(t, 2), in, brokenPipe{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
}

// The queue is bounded: reading waits for room.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, c := newGate(t)
		c.Queue = 2
		answers := make(chan reply, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := gametest.Must(newEngine(ctx, ctx, c, func(r reply) { answers <- r }))(t)
		accepted := make(chan bool, 10)
		go func() {
			for i := range 5 {
				b := game.MustBoard(game.Connect4)
				accepted <- e.accept(query{ID: strconv.Itoa(i), State: game.State{Board: b, Mark: 1}, Text: "-", Search: ask.Search{Visits: 2}})
			}
		}()
		synctest.Wait()
		if len(accepted) != 3 || e.waiting != 2 {
			t.Errorf("%d accepted, %d wait; want 1 searched and 2 waiting", len(accepted), e.waiting)
		}
		close(g.leave)
		synctest.Wait()
		if len(accepted) != 5 || len(answers) != 5 {
			t.Errorf("%d accepted, %d answered in the end", len(accepted), len(answers))
		}
		e.scheduler.Wait()
	})
}

func FuzzParse(f *testing.F) {
	queries, err := os.ReadFile("testdata/queries.jsonl")
	gametest.OK(f, err)
	for line := range strings.Lines(string(queries)) {
		f.Add(strings.TrimSpace(line))
	}
	f.Fuzz(func(t *testing.T, line string) {
		p := parser{Search: ask.Search{Visits: 1}}
		q, err := p.Parse(line)
		switch {
		case err != nil:
			if err.Error() == "" {
				t.Error("an error without words")
			}
		case q.ID == "" || len(q.ID) > maxID:
			t.Errorf("id %q", q.ID)
		case q.Action == "" && (q.State.Board == nil || q.Visits < 1 || q.Visits > 1<<30 || q.Limit < 0 || q.Limit > maxTime || q.Every < 0):
			t.Errorf("%+v", q)
		case q.Action == "":
			if again, err := new(game.Parser).Parse(q.Text); err != nil || again.Position != q.State.Position || again.Board.Rules() != q.State.Board.Rules() {
				t.Errorf("the text %q is %v, %v, want %v", q.Text, again, err, q.State)
			}
		}
	})
}

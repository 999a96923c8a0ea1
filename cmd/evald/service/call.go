package service

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/short"
)

// call is one inference, as both transports give it.
type call struct {
	model, version, id string
	parameters
	input   tensor
	outputs []string // the names asked for; none stands for all
	paid    *hold    // its memory
	copies  int      // how many times its own size the answer takes in the form in which it is sent; 0 stands for 1
	began   time.Time
}

// parameters are what a request may set. Both transports know them by the same names.
type parameters struct {
	board    *game.Board   // "board": rules such as "9x5x4"; nil if not given
	visits   int           // "visits" of a search
	priority eval.Priority // "priority": 1 is the highest, 3 the lowest; 2 if not given
	timeout  time.Duration // "timeout" in microseconds
	raw      bool          // "raw": the model's own answers, without the rules step; a finished game is refused
}

// set reads one parameter; value is a bool, int64, uint64, float64 or string.
func (s *Server) set(p *parameters, name string, value any) error {
	if name == "board" {
		text, ok := value.(string)
		if !ok {
			return invalid("parameter %q: %v, must be a string such as \"9x5x4\"", name, value)
		}
		board, err := s.boards.get(text)
		if err != nil {
			return invalid("parameter %q: %s", name, err)
		}
		p.board = board
		return nil
	}
	if name == "raw" {
		var ok bool
		if p.raw, ok = value.(bool); !ok {
			return invalid("parameter %q: %v, must be true or false", name, value)
		}
		return nil
	}
	number, ok := int64(0), true
	switch v := value.(type) {
	case int64:
		number = v
	case uint64:
		number, ok = int64(v), v < 1<<62
	case float64:
		number = int64(v)
		ok = float64(number) == v && v >= 0 && v < 1<<62
	default:
		ok = false
	}
	largest := int64(0)
	switch name {
	case "visits":
		largest = int64(s.config.Search.MaxVisits)
	case "priority":
		largest = 3
	case "timeout":
		largest = int64(s.config.Limits.Timeout / time.Microsecond)
	case "sequence_id", "sequence_start", "sequence_end":
		return refuse(codes.Unimplemented, "parameter %q: no model here keeps a state between requests", name)
	case "triton_enable_empty_final_response": // tritonclient sends it on streams; there are none
		return nil
	default:
		return invalid("parameter %q: must be board, visits, priority, timeout or raw", name)
	}
	if !ok || number < 0 || number > largest && name != "timeout" {
		return invalid("parameter %q: %v, must be a whole number from 0 to %d", name, value, largest)
	}
	switch name {
	case "visits":
		p.visits = int(number)
	case "priority":
		p.priority = [...]eval.Priority{eval.Normal, eval.High, eval.Normal, eval.Low}[number]
	case "timeout":
		p.timeout = time.Duration(min(number, largest)) * time.Microsecond
	}
	return nil
}

// boards keeps the boards that requests have named. Preparing one takes longer than evaluating most positions.
type boards struct {
	mu    sync.Mutex
	known map[game.Rules]*game.Board
}

const (
	keptBoards   = 256
	longestRules = 64 // bytes of the text of a board's rules
)

func (b *boards) get(text string) (*game.Board, error) {
	if len(text) > longestRules {
		return nil, fmt.Errorf("%q: has more than %d bytes", short.To(text, longestRules), longestRules)
	}
	rules, err := game.ParseRules(text)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	board := b.known[rules]
	b.mu.Unlock()
	if board != nil {
		return board, nil
	}
	if board, err = game.NewBoard(rules); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || len(b.known) >= keptBoards {
		b.known = map[game.Rules]*game.Board{}
	}
	b.known[rules] = board
	return board, nil
}

// answer is what goes back. The outputs' values lie one after the other in memory, which release gives back.
type answer struct {
	model, version string
	rows           int
	outputs        []tensor
	memory         *[]byte
}

var memories = sync.Pool{New: func() any { return new([]byte) }}

// release gives back the memory of the answer's tensors. They must not be used from then on.
func (a *answer) release() {
	if a.memory != nil {
		memories.Put(a.memory)
		a.memory = nil
	}
}

// infer answers a call. Errors are gRPC statuses. The request is counted, and the server does not end before it.
func (s *Server) infer(ctx context.Context, c *call) (a answer, err error) {
	if err := s.enter(); err != nil {
		return a, err
	}
	defer s.leave()
	m, g, err := s.models.hold(c.model, c.version)
	if err != nil {
		return a, err
	}
	defer g.release()
	var t times
	m.stats.begin()
	defer func() {
		if p := recover(); p != nil { // a fault in one request must not end the others
			s.config.Log.Error("a request ended in a panic", "model", c.model, "panic", p)
			err = refuse(codes.Internal, "model %s: the request ended in a fault, which is logged", c.model)
		}
		t.total = time.Since(c.began)
		m.stats.end(&t, a.rows, err)
	}()
	timeout := s.config.Limits.Timeout
	if c.timeout > 0 {
		timeout = min(timeout, c.timeout)
	}
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > timeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.began.Add(timeout))
		defer cancel()
	}
	return s.evaluate(ctx, m, g, c, &t)
}

var batches = sync.Pool{New: func() any { return new(eval.Batch) }}

func (s *Server) evaluate(ctx context.Context, m *model, g *generation, c *call, t *times) (answer, error) {
	if c.board == nil {
		c.board = s.board
	}
	if c.visits > 0 && !m.searches {
		return answer{}, invalid("parameter \"visits\": model %s does not search; %q does", m.name, searchModel)
	}
	n, err := c.input.rows(c.board, s.config.Limits.Batch)
	if err != nil {
		return answer{}, err
	}
	entryOf(ctx).rows = n
	outputs, err := m.wanted(c.outputs)
	if err != nil {
		return answer{}, err
	}
	if err := c.paid.take(c.cost(n, outputs)); err != nil {
		return answer{}, err
	}
	b := batches.Get().(*eval.Batch)
	defer batches.Put(b)
	b.Reset(c.board, n)
	board, err := c.input.positions(c.board, b.Pos)
	if err != nil {
		return answer{}, err
	}
	if board != c.board { // the input "moves" has named another
		b.Board = board
		b.WDL, b.Policy = b.WDL[:3*n], slices.Grow(b.Policy[:0], board.Actions()*n)[:board.Actions()*n]
	}
	if c.raw {
		if err := b.Unfinished(); err != nil {
			return answer{}, invalid("input %q: %s", c.input.name, err)
		}
	}
	t.input = time.Since(c.began)
	var f *found
	if m.searches {
		f, err = s.search(ctx, m, g, c, b)
		t.infer = time.Since(c.began) - t.input
	} else {
		var timing eval.Timing
		timing, err = g.requests.Submit(ctx, b, c.priority, c.raw)
		t.queue, t.infer = timing.Queued, timing.Computed
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("evald.model", m.name), attribute.Int("evald.rows", n),
			attribute.String("evald.board", b.Board.Rules().String()),
			attribute.Int64("evald.queue_us", t.queue.Microseconds()), attribute.Int64("evald.infer_us", t.infer.Microseconds()))
	}
	if err != nil {
		return answer{}, wrong(err)
	}
	start := time.Now()
	a := answer{model: m.name, version: g.Version, rows: n}
	a.encode(outputs, b, f)
	if f != nil {
		founds.Put(f)
	}
	t.output = time.Since(start)
	return a, nil
}

// cost is about how many bytes it takes to answer n rows: a batch, the outputs' values, and these once more in the form in
// which they are sent.
func (c *call) cost(n int, outputs []string) int {
	size := int(unsafe.Sizeof(game.Position{})) + 64 // of a row: its answer and its place in a batch
	size += 4 * c.board.Actions()
	for _, name := range outputs {
		size += (1 + max(c.copies, 1)) * room(name, c.board, 1)
	}
	return n * size
}

// encode writes the outputs into memory that belongs to the answer.
func (a *answer) encode(outputs []string, b *eval.Batch, f *found) {
	size := 0
	for _, name := range outputs {
		size += room(name, b.Board, a.rows)
	}
	a.memory = memories.Get().(*[]byte)
	memory := slices.Grow((*a.memory)[:0], size)
	shapes := make([]int64, 0, 2*len(outputs))
	a.outputs = make([]tensor, len(outputs))
	ends := make([]int, 0, len(searchedOutputs))
	for _, name := range outputs {
		memory = appendOutput(memory, name, b, f)
		ends = append(ends, len(memory))
		shapes = append(shapes, int64(a.rows), int64(width(name, b.Board)))
	}
	at := 0
	for i, name := range outputs {
		a.outputs[i] = tensor{name, outputTypes[name], shapes[2*i : 2*i+2 : 2*i+2], memory[at:ends[i]:ends[i]]}
		at = ends[i]
	}
	*a.memory = memory
}

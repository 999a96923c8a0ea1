package solver

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"strconv"
	"sync"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver/book"
)

// Prober finds the result of positions within a number of nodes. Its answer depends only on the position and that number, and is the same
// for the mirror image, because each probe begins with an empty table. Probers are safe for concurrent use, and allocate nothing in steady
// state.
type Prober struct {
	board *game.Board
	book  *book.Lazy // nil if none ships for the game
	nodes uint64
	bytes int
	bits  int       // binary logarithm of nodes, rounded down
	idle  sync.Pool // of *probe; one whose search panicked does not return, because its memory may not be sound
}

// probe is one search at a time, for scores -1, 0 and 1.
type probe struct {
	solver Solver
	run    run
}

// Nodes is the setting of the maximum number of nodes of a probe. 0 means the default of the search or command. Its text is a number up to
// MostNodes, true for ProbeNodes, or 0 or false for NoProbes.
type Nodes int64

const (
	ProbeNodes = 1000    // the default maximum
	MostNodes  = 100_000 // keeps probes short, because a probe does not notice that its caller has left
	MoveNodes  = 1 << 18 // for all probes that choose one move together (Choose, Away)

	// MostMoveNodes is the maximum for Choose. In 1,600 open positions of 7x6 with 10 to 13 stones, Choose with that many nodes proved a
	// move that keeps the result in all; the hardest took 800,000. With MoveNodes, it proved none in 12 of them.
	MostMoveNodes = 1 << 20

	NoProbes Nodes = -1

	// ByBoard is the default of searches for users: ProbeNodes on boards with gravity, none on others. At equal time a search with probes
	// plays better there (engine/score/LOG.md, "Probes").
	ByBoard Nodes = -2
)

// On is the maximum number of nodes on a board; 0 means no probes.
func (n Nodes) On(b *game.Board) Nodes {
	if n == ByBoard && b.Rules().Gravity {
		return ProbeNodes
	}
	return max(0, n)
}

// UnmarshalText parses the text of Nodes; an empty one means true.
func (n *Nodes) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNodes(string(text), ProbeNodes, MostNodes)
	return err
}

// ParseNodes is UnmarshalText with usual in place of ProbeNodes and most in place of MostNodes.
func ParseNodes(text string, usual, most Nodes) (Nodes, error) {
	switch text {
	case "", "true":
		return usual, nil
	case "false", "0":
		return NoProbes, nil
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil || Nodes(number) > most {
		return 0, fmt.Errorf("must be true, false or a number of nodes from 0 to %d", most)
	}
	return Nodes(number), nil
}

// UnmarshalJSON parses a number, true or false.
func (n *Nodes) UnmarshalJSON(text []byte) error { return n.UnmarshalText(text) }

func (n Nodes) String() string {
	if n == NoProbes {
		return "false"
	}
	return strconv.FormatInt(int64(n), 10)
}

const (
	leastProbe = 16 << 10 // bytes of a table
	mostProbe  = 16 << 20
)

// NewProber returns a Prober whose probes have at most the given number of nodes, from 1.
func NewProber(b *game.Board, nodes uint64) (*Prober, error) {
	if nodes == 0 {
		return nil, fmt.Errorf("solver: a probe needs a node or more")
	}
	// The table has a word for each node, within bounds. A small table stays in the processor's cache and is cheap to clear.
	p := &Prober{board: b, book: book.Results(b.Rules()), nodes: nodes, bytes: int(min(max(nodes, leastProbe/8), mostProbe/8)) * 8, bits: bits.Len64(nodes) - 1}
	p.idle.New = func() any { return p.newProbe() }
	return p, nil
}

func (p *Prober) newProbe() *probe {
	const sign = 1 // the maximum score of WDL searches
	w := &probe{solver: Solver{board: p.board}, run: run{wdl: true, bare: true}}
	if p.board.Wide() || !p.board.Rules().Gravity || fastBytes(p.board, sign) > max(p.bytes, 1<<20) {
		w.solver.prover = newGeneral(p.board, p.bytes)
	} else {
		w.solver.prover = newFast(p.board, p.bytes, 1, sign)
	}
	w.run.solver = &w.solver
	return w
}

// probers holds the Probers that Nodes.For has created. If users name too many boards or numbers of nodes, it is emptied.
var probers struct {
	sync.Mutex
	made map[probed]*Prober
}

type probed struct {
	rules game.Rules
	nodes Nodes
}

const mostProbers = 64

// For returns the Prober of a board, the same one at each call, or nil for no probes. It is safe for concurrent use.
func (n Nodes) For(b *game.Board) *Prober {
	if n = n.On(b); n == 0 {
		return nil
	}
	key := probed{b.Rules(), n}
	probers.Lock()
	defer probers.Unlock()
	p := probers.made[key]
	if p == nil {
		if len(probers.made)%mostProbers == 0 {
			probers.made = map[probed]*Prober{}
		}
		p, _ = NewProber(b, uint64(n))
		probers.made[key] = p
	}
	return p
}

// Worth predicts whether a probe's nodes probably suffice; if not, the probe is not worth its time. The prediction was fitted to 14,000
// positions of twelve boards, of random and of careful play. It estimates the logarithm of the number of nodes that half of all probes
// need: this grows by 3/4 for each empty cell, falls by 2 for each cell that completes a line of either side, and grows by 4 if lines are
// longer than four. On 7x6, 94% of the probes that Worth accepts find a result. Of the probes that would find one, Worth rejects a fifth to
// a third.
func (p *Prober) Worth(pos game.Position) bool {
	rules, left := p.board.Rules(), p.board.Cells()-pos.Plies()
	if !rules.Gravity {
		left *= 2
	}
	empty := p.board.Full().AndNot(pos.All)
	threats := p.board.Completes(pos.Own).And(empty).OnesCount() + p.board.Completes(pos.Other()).And(empty).OnesCount()
	return rules.InARow <= 3 || 3*left-8*threats+16*min(rules.InARow-4, 1) <= 4*(p.bits+7)
}

// Known returns the result of pos for the side to move if pos is in the book of first plies that ships (book.Results), else Ongoing.
func (p *Prober) Known(pos game.Position) game.Result {
	if p.book == nil {
		return game.Ongoing
	}
	return p.book.Result(pos)
}

// Probe returns the result of a position for the side to move. It is Ongoing if the nodes did not suffice, or if Worth rejected the probe.
func (p *Prober) Probe(pos game.Position) game.Result {
	if !p.Worth(pos) {
		return game.Ongoing
	}
	w := p.idle.Get().(*probe)
	pos, _ = p.board.Canonical(pos)
	w.solver.Reset()
	result := w.result(context.Background(), pos, -1, 1, p.nodes)
	p.idle.Put(w)
	return result
}

// Moves returns the result as Probe does, and the landing cells of the moves that keep the result. In a lost position these are all moves.
// Otherwise they are the moves whose results further probes find, each with the full number of nodes. So moves may be empty although the
// result is known. If booked is set, positions in Known take no nodes.
func (p *Prober) Moves(pos game.Position, booked bool) (result game.Result, moves game.Bits) {
	if booked {
		result = p.Known(pos)
	}
	if booked = result != game.Ongoing; !booked && !p.Worth(pos) {
		return game.Ongoing, moves
	}
	w := p.idle.Get().(*probe)
	w.solver.Reset()
	c, mirrored := p.board.Canonical(pos)
	if !booked {
		result = w.result(context.Background(), c, -1, 1, p.nodes)
	}
	switch result {
	case game.Ongoing:
		p.idle.Put(w)
		return result, moves
	case game.Loss:
		p.idle.Put(w)
		return result, p.board.Legal(pos)
	}
	next := -int(result.Value()) // value of positions after a move that keeps the result, for the side to move there: the lowest possible
	for l := p.board.Legal(c); !l.IsZero(); l = l.WithoutFirst() {
		cell := l.LowBit()
		child := p.board.PlayCell(c, cell)
		found := game.Ongoing
		if booked {
			found = p.Known(child)
		}
		if found == game.Ongoing && (!booked || p.Worth(child)) {
			found = w.result(context.Background(), child, next, next+1, p.nodes)
		}
		if found == result.Flip() {
			moves = moves.Or(cell)
		}
	}
	p.idle.Put(w)
	return result, p.likewise(c, mirrored, moves)
}

// Choose returns the first of a position's actions that is proved to keep the result. If no action is, it returns the first that is not
// proved to give the result away. If the result is a loss or unknown, it returns the first action. Proofs come from Known and from probes,
// which share the maximum number of nodes. actions should be all legal ones, in the order in which to try them, the most likely first. The
// caller must convert mirror images to one of the two, because the nodes may suffice for only one of them.
func (p *Prober) Choose(pos game.Position, actions []int) int {
	s := sharing{Prober: p, ctx: context.Background()}
	defer s.end()
	result := s.find(pos, -1, 1)
	if result == game.Ongoing || result == game.Loss {
		return actions[0]
	}
	next, open := -int(result.Value()), -1 // value of positions after a move that keeps the result, for the side to move there: the lowest possible
	for _, action := range actions {
		switch s.find(p.board.Play(pos, action), next, next+1) {
		case result.Flip():
			return action
		case game.Ongoing:
			if open < 0 {
				open = action
			}
		}
	}
	return open
}

// Away returns the result of pos for the side to move, and the landing cells of moves that give it away: those that only draw, and those
// that lose. Proofs come from Known and from probes, which share the maximum number of nodes. So some of these moves may be missing; if the
// result is Ongoing, all are. Once ctx has ended, Away probes no further.
func (p *Prober) Away(ctx context.Context, pos game.Position) (result game.Result, draw, lose game.Bits) {
	c, mirrored := p.board.Canonical(pos)
	s := sharing{Prober: p, ctx: ctx}
	defer s.end()
	result = s.find(c, -1, 1)
	if result == game.Ongoing || result == game.Loss {
		return result, draw, lose
	}
	for l := p.board.Legal(c); !l.IsZero(); l = l.WithoutFirst() {
		switch s.find(p.board.PlayCell(c, l.LowBit()), -int(result.Value()), 1) {
		case game.Win:
			lose = lose.Or(l.LowBit())
		case game.Draw:
			if result == game.Win {
				draw = draw.Or(l.LowBit())
			}
		}
	}
	return result, p.likewise(c, mirrored, draw), p.likewise(c, mirrored, lose)
}

// Only returns the result of pos for the side to move, and the landing cell of the only move that keeps it. The cell is empty if several
// moves keep the result, if pos is lost, or if Known and probes do not prove that there is only one. The probes share the maximum number of
// nodes. Once ctx has ended, Only probes no further.
func (p *Prober) Only(ctx context.Context, pos game.Position) (result game.Result, only game.Bits) {
	c, mirrored := p.board.Canonical(pos)
	s := sharing{Prober: p, ctx: ctx}
	defer s.end()
	result = s.find(c, -1, 1)
	if result == game.Ongoing || result == game.Loss {
		return result, only
	}
	next := -int(result.Value()) // value of positions after a move that keeps the result, for the side to move there: the lowest possible
	for l := p.board.Legal(c); !l.IsZero(); l = l.WithoutFirst() {
		switch s.find(p.board.PlayCell(c, l.LowBit()), next, next+1) {
		case game.Ongoing, result.Flip():
			if !only.IsZero() {
				return result, game.Bits{}
			}
			only = l.LowBit() // even if find returned Ongoing, because some move keeps the result
		}
	}
	return result, p.likewise(c, mirrored, only)
}

// sharing is the state of one call whose probes share the maximum number of nodes.
type sharing struct {
	*Prober
	ctx   context.Context
	probe *probe // nil before the first probe
	busy  bool   // the probe searches, or its search panicked
	last  uint64 // the probe's node count at which the nodes are spent
}

// tables bounds the memory of these probes' tables, up to 8 MiB each, for any number of concurrent searches.
var tables = make(chan struct{}, runtime.NumCPU())

// find returns the result of pos from Known, or from a probe for values (-1, 0 or 1) from least to most only; else Ongoing.
func (s *sharing) find(pos game.Position, least, most int) game.Result {
	if r := s.Known(pos); r != game.Ongoing || !s.Worth(pos) {
		return r
	}
	if s.probe == nil {
		tables <- struct{}{}
		s.probe, s.busy = s.idle.Get().(*probe), true
		s.probe.solver.Reset()
		s.busy = false
		s.last = s.probe.solver.prover.nodes() + s.nodes
	}
	used := s.probe.solver.prover.nodes()
	if used >= s.last || s.ctx.Err() != nil { // ctx may have ended while the call waited for a table
		return game.Ongoing
	}
	s.busy = true
	result := s.probe.result(s.ctx, pos, least, most, s.last-used)
	s.busy = false
	return result
}

func (s *sharing) end() {
	if s.probe == nil {
		return
	}
	if !s.busy {
		s.idle.Put(s.probe)
	}
	<-tables
}

// likewise converts moves of the canonical position c into moves of the original position. If c is its own mirror image, it adds the mirror
// image of each move.
func (p *Prober) likewise(c game.Position, mirrored bool, moves game.Bits) game.Bits {
	image := p.board.Mirror(game.Position{Own: moves, All: moves}).All
	switch {
	case p.board.Mirror(c) == c:
		return moves.Or(image)
	case mirrored:
		return image
	}
	return moves
}

// result returns the result of pos if the search finds it before ctx ends and within the given nodes, and it lies between two scores from -1
// to 1; else Ongoing.
func (w *probe) result(ctx context.Context, pos game.Position, least, most int, nodes uint64) game.Result {
	r := &w.run
	r.ctx = ctx
	defer func() { r.ctx = nil }()
	r.limit, r.least, r.most = w.solver.prover.nodes()+nodes, least, most
	r.spent.Store(false)
	score := w.solver.solve(r, pos).Score
	if r.ended() && r.lower < r.upper {
		return game.Ongoing
	}
	return game.ResultOf(score)
}

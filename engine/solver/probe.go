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

// Prober finds the result of positions within a number of nodes. Its answer follows from the position and that number alone, and is the
// same for the mirror image, because each probe begins with an empty table. Probers are safe for concurrent use and allocate nothing once
// they are warm.
type Prober struct {
	board *game.Board
	book  *book.Lazy // nil if none ships for the game
	nodes uint64
	bytes int
	bits  int       // logarithm of nodes
	idle  sync.Pool // of *probe
}

// probe is one search at a time, of scores -1, 0 and 1.
type probe struct {
	solver Solver
	run    run
}

// Nodes is the maximum number of nodes of each probe, as users set it. 0 is the default of the part that probes. Its text is a number up to
// MostNodes, true for ProbeNodes, or 0 or false for NoProbes.
type Nodes int64

const (
	ProbeNodes = 1000    // the default bound
	MostNodes  = 100_000 // a bound, because a probe does not notice that its caller has left
	MoveNodes  = 1 << 18 // for all probes that choose one move (Choose, Away)

	// MostMoveNodes is the maximum for Choose. On 7x6 it proved a move that keeps the result in all of 1,600 open positions of 10 to 13
	// stones, of which the hardest took 800,000 nodes; MoveNodes do not suffice in 12 of them.
	MostMoveNodes = 1 << 20

	NoProbes Nodes = -1

	// ByBoard is the default of searches for users: ProbeNodes on boards with gravity, none on others. At equal time a search with probes
	// plays better there (engine/score/LOG.md, "Probes").
	ByBoard Nodes = -2
)

// On is the bound on a board; 0 is no probes.
func (n Nodes) On(b *game.Board) Nodes {
	if n == ByBoard && b.Rules().Gravity {
		return ProbeNodes
	}
	return max(0, n)
}

// UnmarshalText parses a text as above; an empty one is true.
func (n *Nodes) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNodes(string(text), ProbeNodes, MostNodes)
	return err
}

// ParseNodes is UnmarshalText with other numbers of nodes: true means usual, and most bounds a number.
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

// NewProber returns a Prober whose probes are bounded by nodes, from 1.
func NewProber(b *game.Board, nodes uint64) (*Prober, error) {
	if nodes == 0 {
		return nil, fmt.Errorf("solver: a probe needs a node or more")
	}
	// A word for each node, within bounds. A small table stays in the processor's cache, and is cheap to clear.
	p := &Prober{board: b, book: book.Results(b.Rules()), nodes: nodes, bytes: int(min(max(nodes, leastProbe/8), mostProbe/8)) * 8, bits: bits.Len64(nodes) - 1}
	p.idle.New = func() any { return p.newProbe() }
	return p, nil
}

func (p *Prober) newProbe() *probe {
	const sign = 1 // the greatest score
	w := &probe{solver: Solver{board: p.board}, run: run{wdl: true, bare: true}}
	if p.board.Wide() || !p.board.Rules().Gravity || fastBytes(p.board, sign) > max(p.bytes, 1<<20) {
		w.solver.prover = newGeneral(p.board, p.bytes)
	} else {
		w.solver.prover = newFast(p.board, p.bytes, 1, sign)
	}
	w.run.solver = &w.solver
	return w
}

// probers are the Probers that Nodes.For has created. They are few, unless users name many boards or numbers; then all are created anew.
var probers struct {
	sync.Mutex
	made map[probed]*Prober
}

type probed struct {
	rules game.Rules
	nodes Nodes
}

const mostProbers = 64

// For returns the Prober of a board, the same at each call, or nil if there are no nodes. It is safe for concurrent use.
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

// Worth reports whether the nodes are likely enough to suffice for a probe. The number of nodes that half of all probes need was fitted to
// 14,000 positions of twelve boards, of random and of careful play: its logarithm grows by 3/4 for an empty cell, falls by 2 for a cell
// that completes a line of either side, and grows by 4 if lines are longer than four. On 7x6, 94% of the probes that are made find a
// result; Worth rejects a fifth to a third of all probes that would.
func (p *Prober) Worth(pos game.Position) bool {
	rules, left := p.board.Rules(), p.board.Cells()-pos.Plies()
	if !rules.Gravity {
		left *= 2
	}
	empty := p.board.Full().AndNot(pos.All)
	threats := p.board.Completes(pos.Own).And(empty).OnesCount() + p.board.Completes(pos.Other()).And(empty).OnesCount()
	return rules.InARow <= 3 || 3*left-8*threats+16*min(rules.InARow-4, 1) <= 4*(p.bits+7)
}

// Known returns the result of pos for the side to move, if it is among the first plies that ship (book.Results), else Ongoing.
func (p *Prober) Known(pos game.Position) game.Result {
	if p.book == nil {
		return game.Ongoing
	}
	return p.book.Result(pos)
}

// Probe returns the result of a position for the side to move. It is Ongoing if the nodes did not suffice, or Worth rejected the probe.
func (p *Prober) Probe(pos game.Position) game.Result {
	if !p.Worth(pos) {
		return game.Ongoing
	}
	w := p.idle.Get().(*probe)
	defer p.idle.Put(w)
	pos, _ = p.board.Canonical(pos)
	w.solver.Reset()
	return w.result(pos, -1, 1, p.nodes)
}

// Moves is Probe, and also returns the landing cells of the moves that keep the result: all moves of a lost position, otherwise those whose
// results are found, with the same number of nodes for each. So moves may be empty although the result is known. If booked, positions in
// Known take no nodes.
func (p *Prober) Moves(pos game.Position, booked bool) (result game.Result, moves game.Bits) {
	if booked {
		result = p.Known(pos)
	}
	if booked = result != game.Ongoing; !booked && !p.Worth(pos) {
		return game.Ongoing, moves
	}
	w := p.idle.Get().(*probe)
	defer p.idle.Put(w)
	w.solver.Reset()
	c, mirrored := p.board.Canonical(pos)
	if !booked {
		result = w.result(c, -1, 1, p.nodes)
	}
	switch result {
	case game.Ongoing:
		return result, moves
	case game.Loss:
		return result, p.board.Legal(pos)
	}
	next := -int(result.Value()) // of the positions after moves, where it is the lowest possible
	for l := p.board.Legal(c); !l.IsZero(); l = l.WithoutFirst() {
		cell := l.LowBit()
		child := p.board.PlayCell(c, cell)
		found := game.Ongoing
		if booked {
			found = p.Known(child)
		}
		if found == game.Ongoing && (!booked || p.Worth(child)) {
			found = w.result(child, next, next+1, p.nodes)
		}
		if found == result.Flip() {
			moves = moves.Or(cell)
		}
	}
	return result, p.likewise(c, mirrored, moves)
}

// Choose returns the first of a position's actions that is proved to keep its result. If there is none, it returns the first that is not
// proved to give the result away. If the result is not proved either, or is a loss, it returns the first. Proofs come from Known and from
// probes, which share the bound on nodes. actions should be all legal ones, in the order in which to try them, the most likely first. The
// caller must choose one of two mirror images, because the nodes may suffice for only one of them.
func (p *Prober) Choose(pos game.Position, actions []int) int {
	s := sharing{Prober: p, ctx: context.Background()}
	defer s.end()
	result := s.find(pos, -1, 1)
	if result == game.Ongoing || result == game.Loss {
		return actions[0]
	}
	next, open := -int(result.Value()), -1 // next is of the positions after moves, where it is the lowest possible
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
// that lose. Proofs come from Known and from probes, which share the bound on nodes. So some of these moves may be missing, and all are if
// the result is Ongoing. After ctx has ended no probe begins.
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
// moves keep the result, if pos is lost, or if this is not proved by Known or by probes, which share the bound on nodes. After ctx has
// ended no probe begins.
func (p *Prober) Only(ctx context.Context, pos game.Position) (result game.Result, only game.Bits) {
	c, mirrored := p.board.Canonical(pos)
	s := sharing{Prober: p, ctx: ctx}
	defer s.end()
	result = s.find(c, -1, 1)
	if result == game.Ongoing || result == game.Loss {
		return result, only
	}
	next := -int(result.Value()) // of the positions after moves, where it is the lowest possible
	for l := p.board.Legal(c); !l.IsZero(); l = l.WithoutFirst() {
		switch s.find(p.board.PlayCell(c, l.LowBit()), next, next+1) {
		case game.Ongoing, result.Flip():
			if !only.IsZero() {
				return result, game.Bits{}
			}
			only = l.LowBit() // even if it is Ongoing: some move keeps the result
		}
	}
	return result, p.likewise(c, mirrored, only)
}

// sharing is the probes of one call, which share the bound on nodes.
type sharing struct {
	*Prober
	ctx   context.Context
	probe *probe // nil before the first
	last  uint64 // the probe's count of nodes at which none are left
}

// tables bounds the memory of these probes' tables, of up to 8 MiB each, whatever the number of concurrent searches.
var tables = make(chan struct{}, runtime.NumCPU())

// find returns the result of pos from Known, or from a probe, which finds only values (-1, 0 or 1) from least to most; else Ongoing.
func (s *sharing) find(pos game.Position, least, most int) game.Result {
	if r := s.Known(pos); r != game.Ongoing || !s.Worth(pos) {
		return r
	}
	if s.probe == nil {
		tables <- struct{}{}
		s.probe = s.idle.Get().(*probe)
		s.probe.solver.Reset()
		s.last = s.probe.solver.prover.nodes() + s.nodes
	}
	used := s.probe.solver.prover.nodes()
	if used >= s.last || s.ctx.Err() != nil { // it may have waited for a table
		return game.Ongoing
	}
	return s.probe.result(pos, least, most, s.last-used)
}

func (s *sharing) end() {
	if s.probe != nil {
		s.idle.Put(s.probe)
		<-tables
	}
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

// result returns the result of pos, if it lies between two scores from -1 to 1 and is found within the bound nodes; else Ongoing.
func (w *probe) result(pos game.Position, least, most int, nodes uint64) game.Result {
	r := &w.run
	r.limit, r.least, r.most = w.solver.prover.nodes()+nodes, least, most
	r.spent.Store(false)
	score := w.solver.solve(r, pos).Score
	if r.spent.Load() && r.lower < r.upper {
		return game.Ongoing
	}
	return game.ResultOf(score)
}

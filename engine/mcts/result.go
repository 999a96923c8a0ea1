package mcts

import (
	"math"
	"slices"

	"github.com/evald/evald/engine/game"
)

// Move is the search's result for a move of the root, or of another position of the tree. Its values are for the side to move.
type Move struct {
	Action int
	Visits int
	Q      float64     // mean value in -1..1; 0 if it has neither visits nor a proof
	Prior  float64     // as used in the search; see Config.FlatPriors
	Result game.Result // Win, Draw or Loss if proved; else Ongoing
	Plies  int         // if proved: plies from the root to the end of the game by the best known play (after a probe: to the full board); never fewer than with exact play
}

// Moves appends the root's moves in the order of the board's bits: columns from the left; without gravity, the cells of each column from
// the bottom. It appends none before the root has moves.
func (t *Tree) Moves(moves []Move) []Move { return t.MovesAfter(nil, moves) }

// MovesAfter appends the moves of the position after a line of moves from the root. Their values are for the side to move there. It appends
// none if the tree has no moves for that position.
func (t *Tree) MovesAfter(line []int, moves []Move) []Move {
	at := &t.nodes[rootNode]
	for _, a := range line {
		next := slices.IndexFunc(t.moves(at), func(c node) bool { return int(c.action) == a })
		if next < 0 {
			return moves
		}
		at = &t.moves(at)[next]
	}
	return t.movesOf(at, moves)
}

func (t *Tree) movesOf(n *node, moves []Move) []Move {
	for _, c := range t.moves(n) {
		m := Move{Action: int(c.action), Visits: int(c.visits), Prior: float64(c.prior)}
		proved := c.proof != open && !t.unseen(&c)
		if proved {
			m.Result, m.Plies = c.proof.result(), int(c.plies)+1
		}
		if c.visits > 0 || proved {
			m.Q = t.mean(&c)
		}
		moves = append(moves, m)
	}
	return moves
}

func (t *Tree) rootMoves() []node { return t.moves(&t.nodes[rootNode]) }

func (p proof) result() game.Result {
	return [...]game.Result{open: game.Ongoing, lost: game.Loss, drawn: game.Draw, won: game.Win}[p]
}

// Result is the proved result of the root for its side to move, or Ongoing.
func (t *Tree) Result() game.Result {
	n := &t.nodes[rootNode]
	if n.proof == open {
		return game.Ongoing
	}
	return n.proof.flip().result()
}

// Value is the mean value of the root, or its proved one, in -1..1 for the side to move. Without visits it is 0.
func (t *Tree) Value() float64 {
	n := &t.nodes[rootNode]
	if n.visits == 0 && n.proof == open {
		return 0
	}
	return 0 - t.mean(n) // not -mean: a draw is 0, never -0
}

// Plain reports whether the search is plain: Config.Plain.
func (t *Tree) Plain() bool { return t.config.Plain }

// Raw is the evaluator's own value of the root, -1..1 for the side to move. ok is false if the rules
// decided the root, so that no evaluator was asked.
func (t *Tree) Raw() (value float64, ok bool) {
	n := &t.nodes[rootNode]
	return t.raw(n), n.raw != unevaluated
}

// WDL writes the mean probabilities of win, draw and loss for the side to move, or the proved ones, into wdl [3].
func (t *Tree) WDL(wdl []float32) {
	n := &t.nodes[rootNode]
	value := float32(t.Value())
	draw := n.draw
	if n.proof != open {
		draw = n.proof.draw()
	}
	draw = min(draw, 1-max(value, -value)) // draw is a mean over visits, value one over moves; if they contradict each other, value takes precedence
	wdl[0], wdl[1], wdl[2] = max(0, (1-draw+value)/2), draw, max(0, (1-draw-value)/2)
}

// Best is the action to play: the fastest proved win, else the most visited action that is not proved to lose, else the slowest proved
// loss. Among equally visited actions, Gumbel chooses the one with the best score. Flat chooses the action with the best mean, the first of
// equals. Best is -1 if the root has no moves yet and none wins at once.
func (t *Tree) Best() int {
	moves := t.rootMoves()
	if len(moves) == 0 {
		if wins := t.board.Wins(t.root); !wins.IsZero() {
			return t.board.Action(wins.First())
		}
		return -1
	}
	var values [game.MaxBits]float64
	if t.config.Selection == Gumbel {
		t.completed(&t.nodes[rootNode], &values)
	}
	best := 0
	for i := range moves {
		if t.better(moves, values[:], i, best) {
			best = i
		}
	}
	return int(moves[best].action)
}

// better reports whether root move i is better than k. It compares proofs and their distances, then visits, values and priors.
func (t *Tree) better(moves []node, values []float64, i, k int) bool {
	a, b := &moves[i], &moves[k]
	rank := func(n *node) int { // a win, then open moves, then a loss; a draw counts as open or, if the root is won, comes after open moves
		switch {
		case t.config.Plain:
			return 2
		case n.proof == won:
			return 3
		case n.proof == lost:
			return 0
		case t.gives(n):
			return 1
		}
		return 2
	}
	switch {
	case rank(a) != rank(b):
		return rank(a) > rank(b)
	case a.proof == won && a.plies != b.plies:
		return a.plies < b.plies
	case a.proof == lost && a.plies != b.plies:
		return a.plies > b.plies
	case t.config.Selection == Flat && a.visits > 0 && b.visits > 0:
		return t.mean(a) > t.mean(b)
	case a.visits != b.visits:
		return a.visits > b.visits
	case t.config.Selection == Gumbel && len(t.gumbel.sequence) > 0:
		return t.gumbel.noise[i]+logit(a)+values[i] > t.gumbel.noise[k]+logit(b)+values[k]
	case a.visits > 0 && t.mean(a) != t.mean(b):
		return t.mean(a) > t.mean(b)
	}
	return a.prior > b.prior
}

// Policy writes the root's policy into policy [Actions]. With temperature 1 a move's probability is its share of the visits; lower
// temperatures sharpen the policy, and with 0 the best move gets 1. Gumbel writes its improved policy at any temperature above 0. Moves
// that are proved to lose get 0. If the root is proved to be won or lost, the best move gets 1, and so it does with Flat, whose shares are
// equal.
func (t *Tree) Policy(policy []float32, temperature float64) {
	clear(policy)
	moves := t.rootMoves()
	best, whole := t.Best(), t.Result() == game.Win || t.Result() == game.Loss || t.config.Selection == Flat
	if best >= 0 && (whole || temperature == 0 || len(moves) == 0) {
		policy[best] = 1
		return
	}
	var weight [game.MaxBits]float64
	if t.config.Selection == Gumbel {
		t.improved(&t.nodes[rootNode], &weight)
	} else {
		most := uint32(1)
		for i := range moves {
			most = max(most, moves[i].visits)
		}
		for i := range moves {
			weight[i] = math.Pow(float64(moves[i].visits)/float64(most), 1/temperature)
		}
	}
	total, alive := 0.0, 0
	for i := range moves {
		if t.gives(&moves[i]) {
			weight[i] = 0
			continue
		}
		total += weight[i]
		alive++
	}
	for i := range moves {
		switch {
		case total > 0:
			policy[moves[i].action] = float32(weight[i] / total)
		case !t.gives(&moves[i]):
			policy[moves[i].action] = 1 / float32(alive) // no move has visits yet
		}
	}
}

// Line appends the principal variation: the best move of the root, then at each node a proved win or the most visited move. A plain search
// has no proofs. Below the root, visits of Flat are random, so its line is one move.
func (t *Tree) Line(actions []int) []int {
	best := t.Best()
	if best < 0 {
		return actions
	}
	if actions = append(actions, best); t.config.Selection == Flat {
		return actions
	}
	p := t.board.Play(t.root, best)
	at := uint32(0)
	for i, c := range t.rootMoves() {
		if int(c.action) == best {
			at = t.nodes[rootNode].first + uint32(i)
		}
	}
	for at != 0 && t.nodes[at].first != 0 {
		n := &t.nodes[at]
		at = 0
		for i := range uint32(n.count) {
			c := &t.nodes[n.first+i]
			switch {
			case c.visits == 0 && (c.proof != won || t.config.Plain):
			case t.config.Plain:
				if at == 0 || c.visits > t.nodes[at].visits {
					at = n.first + i
				}
			case at == 0, c.proof == won, c.proof != lost && c.visits > t.nodes[at].visits && t.nodes[at].proof != won:
				at = n.first + i
			}
		}
		if at != 0 {
			actions = append(actions, int(t.nodes[at].action))
			p = t.board.Play(p, int(t.nodes[at].action))
		}
	}
	// The search sees two stones ahead without nodes: a stone that wins, and one before it that leaves no defence. Line appends them.
	for range 2 {
		if t.config.Plain {
			break
		}
		if t.board.Result(p) != game.Ongoing {
			break
		}
		next := t.board.Wins(p)
		if next.IsZero() && t.board.Safe(p).IsZero() {
			next = t.board.Legal(p)
		}
		if next.IsZero() {
			break
		}
		actions = append(actions, t.board.Action(next.First()))
		p = t.board.PlayCell(p, next.LowBit())
	}
	return actions
}

// Advance plays an action at the root. It keeps the nodes of the position after it, up to the limit of keptPart, if that position has
// moves; otherwise it keeps nothing. The action must be legal and must not end the game. No leaf may be pending.
func (t *Tree) Advance(action int) {
	root := t.board.Play(t.root, action)
	for i, c := range t.rootMoves() {
		if int(c.action) == action && c.first != 0 {
			t.keep(t.nodes[rootNode].first + uint32(i))
			t.root = root
			t.startRoot()
			return
		}
	}
	t.Reset(root)
}

// Advance keeps at most MaxNodes/keptPart nodes, or MaxBits if that is more. Copying more would take a large part of the time of a move.
const keptPart = 8

// keep makes top the root: it copies top and the nodes below it to the front, level by level. If they are too many, the deepest nodes lose
// their moves, but keep their visits and values.
func (t *Tree) keep(top uint32) {
	most := max(t.config.MaxNodes/keptPart, game.MaxBits+1)
	to := append(t.spare[:0], node{}, t.nodes[top])
	t.copies = append(t.copies[:0], make([]uint32, len(t.nodes))...)
	for i := rootNode; i < len(to); i++ {
		n := &to[i]
		if n.first == 0 {
			continue
		}
		moves := t.moves(n)
		if twin := t.copies[n.first]; twin != 0 {
			n.first = to[twin].first
			continue
		}
		if len(to)+len(moves) > most {
			n.first, n.count, n.raw = 0, 0, int16(rawUnit*t.mean(n))
			continue
		}
		t.copies[n.first] = uint32(i)
		n.first = uint32(len(to))
		to = append(to, moves...)
	}
	t.kept.copy(&t.positions, func(at uint32) uint32 { return t.copies[t.nodes[at].first] })
	t.positions, t.kept = t.kept, t.positions
	t.nodes, t.spare = append(t.nodes[:0], to...), to
}

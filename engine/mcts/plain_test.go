package mcts_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/mcts"
)

// papers are plain configurations, with constants that differ from the usual ones.
func papers() map[string]mcts.Config {
	puct, fpu, gumbel, mctx, few := mcts.DefaultConfig(mcts.PUCT), mcts.DefaultConfig(mcts.PUCT), mcts.DefaultConfig(mcts.Gumbel), mcts.DefaultConfig(mcts.Gumbel), mcts.DefaultConfig(mcts.Gumbel)
	fpu.C, fpu.FPU, fpu.Discount, fpu.ForcedPlayouts = 2.5, 0.45, 0.97, 2
	mctx.CScale, mctx.Rescale = 0.1, true
	few.Moves, few.CVisit, few.CScale = 4, 20, 0.5
	all := map[string]mcts.Config{"puct": puct, "puct with others": fpu, "gumbel": gumbel, "gumbel as mctx": mctx, "gumbel with 4": few, "flat": mcts.DefaultConfig(mcts.Flat)}
	for name, c := range all {
		c.Plain, c.Transpositions, c.FlatPriors = true, false, false
		if c.Selection == mcts.Gumbel {
			c.GumbelScale = 0 // the noise is random
		}
		all[name] = c
	}
	return all
}

// hashed is a network whose answers depend on the position's hash alone, in float32 as a Batch has them.
type hashed struct{}

func (hashed) Attributes() eval.Attributes { return eval.Attributes{Rows: 8, Plain: true} }

func (hashed) Compute(_ context.Context, b *eval.Batch) error {
	for i, p := range b.Pos {
		wdl, policy := hashedAnswer(b.Board, p)
		copy(b.WDLRow(i), wdl[:])
		copy(b.PolicyRow(i), policy)
		b.Source[i] = eval.Function
	}
	return nil
}

func hashedAnswer(b *game.Board, p game.Position) (wdl [3]float32, policy []float32) {
	r := gametest.Rand(p.Hash())
	total := float32(0)
	for k := range wdl {
		wdl[k] = 0.05 + r.Float32()
		total += wdl[k]
	}
	for k := range wdl {
		wdl[k] /= total
	}
	policy, total = make([]float32, b.Actions()), 0
	for a := range policy {
		if x := r.Float32() * r.Float32(); b.CanPlay(p, a) {
			policy[a] = 0.01 + x
			total += policy[a]
		}
	}
	for a := range policy {
		policy[a] /= total
	}
	return wdl, policy
}

// The tree makes the same visits as the papers' searches, written down as simply as possible, on
// boards of all kinds, also near the end of the game, where most leaves are games that are over.
func TestPlain(t *testing.T) {
	gametest.OneGoroutine(t)
	for name, c := range papers() {
		for _, rules := range []string{"7x6x4", "5x4x4", "4x4x3", "3x3x3free", "4x5x4free"} {
			t.Run(name+" "+rules, func(t *testing.T) {
				b := gametest.Must(new(game.Boards).Parse(rules))(t)
				r := gametest.Rand(uint64(len(name) * len(rules)))
				for i, p := range gametest.Positions(r, b, 40, true) {
					c.Visits = 2 + r.IntN(150)
					want := newPaper(b, c, p)
					want.run()
					got := tree(t, b, c, p)
					gametest.OK(t, mcts.Search(t.Context(), eval.New(hashed{}, eval.Options{}), []*mcts.Tree{got}, mcts.Limits{Visits: c.Visits, Batch: 1}))
					want.compare(t, got, fmt.Sprintf("%d: %s with %d visits", i, b.Text(p), c.Visits))
				}
			})
		}
	}
}

// paper is a search as its paper describes it. Values are for the side to move at a node.
type paper struct {
	board  *game.Board
	config mcts.Config
	root   *paperNode
	due    []int      // Gumbel: the visits that a root move must have to be considered
	random *rand.Rand // Flat: the random numbers of the tree
}

type paperNode struct {
	position game.Position
	over     bool
	raw      float64
	visits   int
	sum      float64 // of the values of its visits
	prior    []float64
	next     map[int]*paperNode // by action
}

func newPaper(b *game.Board, c mcts.Config, p game.Position) *paper {
	s := &paper{board: b, config: c, root: &paperNode{position: p}, random: rand.New(rand.NewPCG(c.Seed, p.Hash()))}
	s.expand(s.root)
	s.root.visits, s.root.sum = 1, s.root.raw
	if c.Selection == mcts.Gumbel {
		considered := min(c.Moves, len(s.root.next))
		rounds := max(1, int(math.Ceil(math.Log2(float64(considered)))))
		seen := make([]int, considered)
		for m := considered; len(s.due) < c.Visits-1; m = max(min(2, considered), m/2) {
			for range max(1, (c.Visits-1)/(rounds*m)) {
				for i := range m {
					s.due = append(s.due, seen[i])
					seen[i]++
				}
			}
		}
	}
	return s
}

// expand gives a node its value, and moves unless the game is over.
func (s *paper) expand(n *paperNode) {
	switch s.board.Result(n.position) {
	case game.Loss:
		n.over, n.raw = true, -1
		return
	case game.Draw:
		n.over = true
		return
	}
	wdl, policy := hashedAnswer(s.board, n.position)
	n.raw, n.next = float64(wdl[0]-wdl[2]), map[int]*paperNode{}
	n.prior = make([]float64, len(policy))
	for a, p := range policy {
		n.prior[a] = float64(p)
		if s.board.CanPlay(n.position, a) {
			n.next[a] = &paperNode{position: s.board.Play(n.position, a)}
		}
	}
}

func (s *paper) run() {
	for i := 1; i < s.config.Visits; i++ {
		path, at := []*paperNode{s.root}, s.root
		for at.visits > 0 && !at.over {
			action := 0
			switch {
			case s.config.Selection == mcts.PUCT:
				action = s.puct(at)
			case s.config.Selection == mcts.Flat:
				action = s.flat(at)
			case at == s.root:
				action = s.gumbelRoot(s.due[i-1])
			default:
				action = s.gumbel(at)
			}
			at = at.next[action]
			path = append(path, at)
		}
		if at.visits == 0 {
			s.expand(at)
		}
		value := at.raw
		for k := len(path) - 1; k >= 0; k-- {
			path[k].visits++
			path[k].sum += value
			value *= -s.config.Discount
		}
	}
}

// q is the value of a move with visits, for the side that makes it.
func (n *paperNode) q(a int) float64 { return -n.next[a].sum / float64(n.next[a].visits) }

// actions are the legal ones in the tree's order, so that ties go the same way.
func (s *paper) actions(n *paperNode) (all []int) {
	for l := s.board.Legal(n.position); !l.IsZero(); l = l.WithoutFirst() {
		all = append(all, s.board.Action(l.First()))
	}
	return all
}

func (s *paper) puct(n *paperNode) int {
	tried := 0.0
	for a, m := range n.next {
		if m.visits > 0 {
			tried += float64(float32(n.prior[a]))
		}
	}
	best, most := -1, math.Inf(-1)
	for _, a := range s.actions(n) {
		m := n.next[a]
		q := n.sum / float64(n.visits)
		if n != s.root {
			q -= s.config.FPU * math.Sqrt(tried)
		}
		if m.visits > 0 {
			q = n.q(a)
		}
		if v := float64(m.visits); n == s.root && v > 0 && v*v < s.config.ForcedPlayouts*n.prior[a]*float64(n.visits) {
			return a
		}
		if u := q + s.config.C*n.prior[a]*math.Sqrt(float64(n.visits))/float64(1+m.visits); u > most+1e-12 {
			best, most = a, u
		}
	}
	return best
}

// flat takes the root's moves in turns, and draws one of the moves elsewhere.
func (s *paper) flat(n *paperNode) int {
	all := s.actions(n)
	if n == s.root {
		return all[(n.visits-1)%len(all)]
	}
	return all[s.random.IntN(len(all))]
}

// bestFlat is the root's move with the best mean, the first of equals.
func (s *paper) bestFlat() int {
	best := -1
	for _, a := range s.actions(s.root) {
		if s.root.next[a].visits > 0 && (best < 0 || s.root.q(a) > s.root.q(best)) {
			best = a
		}
	}
	return best
}

// scores are the logarithm of the prior and the scaled value of each move, added.
func (s *paper) scores(n *paperNode) map[int]float64 {
	visits, weight, sum, most := 0.0, 0.0, 0.0, 0
	for a, m := range n.next {
		most = max(most, m.visits)
		visits += float64(m.visits)
		if m.visits > 0 {
			weight += n.prior[a]
			sum += n.prior[a] * n.q(a)
		}
	}
	mixed := n.raw
	if weight > 0 {
		mixed = (n.raw + visits*sum/weight) / (1 + visits)
	}
	values := map[int]float64{}
	for a, m := range n.next {
		if values[a] = mixed; m.visits > 0 {
			values[a] = n.q(a)
		}
	}
	low, high := -1.0, 1.0
	if s.config.Rescale {
		low, high = math.Inf(1), math.Inf(-1)
		for a := range s.board.Actions() {
			v, legal := values[a]
			if !legal {
				v = mixed
			}
			low, high = min(low, v), max(high, v)
		}
	}
	for a := range values {
		values[a] = math.Log(n.prior[a]) + (s.config.CVisit+float64(most))*s.config.CScale*(values[a]-low)/max(1e-8, high-low)
	}
	return values
}

func (s *paper) gumbelRoot(due int) int {
	likeliest := s.actions(s.root)
	slices.SortStableFunc(likeliest, func(a, b int) int {
		return -int(math.Copysign(1, s.root.prior[a]-s.root.prior[b]))
	})
	likeliest = likeliest[:min(len(likeliest), s.config.Moves)]
	scores, best := s.scores(s.root), -1
	for _, a := range likeliest {
		if s.root.next[a].visits == due && (best < 0 || scores[a] > scores[best]) {
			best = a
		}
	}
	return best
}

func (s *paper) policy(n *paperNode) map[int]float64 {
	policy, most, total := s.scores(n), math.Inf(-1), 0.0
	for _, x := range policy {
		most = max(most, x)
	}
	for a, x := range policy {
		policy[a] = math.Exp(x - most)
		total += policy[a]
	}
	for a := range policy {
		policy[a] /= total
	}
	return policy
}

func (s *paper) gumbel(n *paperNode) int {
	policy, total, best, most := s.policy(n), 1, -1, math.Inf(-1)
	for _, m := range n.next {
		total += m.visits
	}
	for _, a := range s.actions(n) {
		if x := policy[a] - float64(n.next[a].visits)/float64(total); x > most+1e-12 {
			best, most = a, x
		}
	}
	return best
}

func (s *paper) compare(t *testing.T, got *mcts.Tree, where string) {
	t.Helper()
	if got.Result() != game.Ongoing || got.Visits() != s.config.Visits {
		t.Fatalf("%s: result %v after %d visits", where, got.Result(), got.Visits())
	}
	if want := s.root.sum / float64(s.root.visits); math.Abs(got.Value()-want) > 1e-6 {
		t.Fatalf("%s: value %v, want %v", where, got.Value(), want)
	}
	for _, m := range got.Moves(nil) {
		n := s.root.next[m.Action]
		if m.Visits != n.visits || n.visits > 0 && math.Abs(m.Q-s.root.q(m.Action)) > 1e-6 || m.Prior != s.root.prior[m.Action] {
			t.Fatalf("%s, move %d: %d visits, q %v, prior %v; want %d, the sum %v, %v", where, m.Action+1, m.Visits, m.Q, m.Prior, n.visits, n.sum, s.root.prior[m.Action])
		}
		if over := n.visits > 0 && n.over; over != (m.Result != game.Ongoing) {
			t.Fatalf("%s, move %d: result %v", where, m.Action+1, m.Result)
		}
	}
	want := map[int]float64{}
	for a, n := range s.root.next {
		want[a] = float64(n.visits) / max(1, float64(s.config.Visits-1))
	}
	switch s.config.Selection {
	case mcts.Gumbel:
		want = s.policy(s.root)
	case mcts.Flat:
		want = map[int]float64{s.bestFlat(): 1}
	}
	s.compareTrees(t, got, where)
	s.compareLine(t, got, where)
	policy := make([]float32, s.board.Actions())
	got.Policy(policy, 1)
	for a, p := range policy {
		if math.Abs(float64(p)-want[a]) > 1e-5 {
			t.Fatalf("%s: policy %v, want %v", where, policy, want)
		}
	}
}

// compareLine checks that the move to play and the line after it are the most visited ones, also
// where another move ends the game.
func (s *paper) compareLine(t *testing.T, got *mcts.Tree, where string) {
	t.Helper()
	line, at := got.Line(nil), s.root
	if s.config.Selection == mcts.Flat {
		if want := []int{s.bestFlat()}; !slices.Equal(line, want) || got.Best() != want[0] {
			t.Fatalf("%s: line %v, best %d, want %v", where, line, got.Best(), want)
		}
		return
	}
	if len(line) == 0 || line[0] != got.Best() {
		t.Fatalf("%s: line %v, best %d", where, line, got.Best())
	}
	for i, a := range line {
		most := 0
		for _, n := range at.next {
			most = max(most, n.visits)
		}
		if at.next[a] == nil || at.next[a].visits != most || most == 0 {
			t.Fatalf("%s: line %v has a move %d with fewer visits than another", where, line, i+1)
		}
		at = at.next[a]
	}
	for _, n := range at.next {
		if n.visits > 0 {
			t.Fatalf("%s: line %v ends before a move with visits", where, line)
		}
	}
}

// compareTrees compares all positions by the moves that lead to them, and those of Arrays.
func (s *paper) compareTrees(t *testing.T, got *mcts.Tree, where string) {
	t.Helper()
	a, m := s.board.Actions(), s.config.Visits+1
	all, floats := make([]int32, 4*m+2*m*a), make([]float32, 2*m+4*m*a)
	whole := func(n int) []int32 { part := all[:n]; all = all[n:]; return part }
	real := func(n int) []float32 { part := floats[:n]; floats = floats[n:]; return part }
	arrays := mcts.Arrays{
		NodeVisits: whole(m), Parents: whole(m), ActionFromParent: whole(m), NodeValues: real(m), RawValues: real(m), ChildrenIndex: whole(m * a),
		ChildrenVisits: whole(m * a), ChildrenPriorLogits: real(m * a), ChildrenRewards: real(m * a), ChildrenDiscounts: real(m * a), ChildrenValues: real(m * a),
	}
	gametest.OK(t, arrays.Write(got, 0, m))
	at, seen := []*paperNode{}, 0
	gametest.OK(t, got.Walk(func(step mcts.Step, _ []mcts.Move, _ []int) {
		n := s.root
		if step.Parent >= 0 {
			n = at[step.Parent].next[step.Action]
		}
		i := len(at)
		at = append(at, n)
		near := func(x, want float64) bool { return math.Abs(x-want) < 1e-5 }
		if want := n.sum / float64(n.visits); step.Visits != n.visits || step.Over != n.over || !near(step.Value, want) || !n.over && !near(step.Raw, n.raw) {
			t.Fatalf("%s, position %d: %+v, want %d visits, value %v, raw %v, over %v", where, i, step, n.visits, want, n.raw, n.over)
		}
		if int(arrays.NodeVisits[i]) != n.visits || int(arrays.Parents[i]) != step.Parent || int(arrays.ActionFromParent[i]) != step.Action || !n.over && !near(float64(arrays.RawValues[i]), n.raw) {
			t.Fatalf("%s, position %d of the arrays: %d visits, parent %d", where, i, arrays.NodeVisits[i], arrays.Parents[i])
		}
		for action := range a {
			c, child := i*a+action, n.next[action]
			index, q := arrays.ChildrenIndex[c], float64(arrays.ChildrenRewards[c]+arrays.ChildrenDiscounts[c]*arrays.ChildrenValues[c])
			switch {
			case child == nil:
				if index != -1 || arrays.ChildrenVisits[c] != 0 || arrays.ChildrenPriorLogits[c] > -1e30 {
					t.Fatalf("%s, position %d: move %d, which is illegal, is %d with %d visits", where, i, action+1, index, arrays.ChildrenVisits[c])
				}
			case int(arrays.ChildrenVisits[c]) != child.visits || (index >= 0) != (child.visits > 0) || !near(math.Exp(float64(arrays.ChildrenPriorLogits[c])), n.prior[action]):
				t.Fatalf("%s, position %d: move %d is %d with %d visits, want %d", where, i, action+1, index, arrays.ChildrenVisits[c], child.visits)
			case child.visits > 0 && (!near(q, n.q(action)) || int(arrays.Parents[index]) != i || int(arrays.ActionFromParent[index]) != action):
				t.Fatalf("%s, position %d: move %d has the value %v, want %v", where, i, action+1, q, n.q(action))
			}
		}
		seen++
	}))
	if seen > s.config.Visits || arrays.NodeVisits[seen] != 0 || arrays.Parents[seen] != -1 {
		t.Fatalf("%s: %d positions of %d visits", where, seen, s.config.Visits)
	}
}

// Only a plain search without transpositions has a tree of positions.
func TestWalkRefuses(t *testing.T) {
	b, p := position(t, "44")
	plain := papers()["puct"]
	plain.Transpositions = true
	for _, c := range []mcts.Config{mcts.DefaultConfig(mcts.PUCT), plain} {
		if err := tree(t, b, c, p).Walk(func(mcts.Step, []mcts.Move, []int) { t.Error("a position") }); err == nil {
			t.Errorf("plain %v, transpositions %v: no error", c.Plain, c.Transpositions)
		}
	}
}

// Own priors are shares of the open moves, and change what the next visits do.
func TestSetPriors(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	c := mcts.DefaultConfig(mcts.PUCT)
	threat := b.PlayMoves([]int{0, 6, 1, 6, 2}) // the side to move must play 3
	for _, test := range []struct {
		p            game.Position
		policy, want []float32
	}{
		{game.Position{}, []float32{1, 1, 0, 4, 1, 1, 0}, []float32{0.125, 0.125, 0, 0.5, 0.125, 0.125, 0}},
		{threat, []float32{1, 1, 1, 1, 1, 1, 1}, []float32{0, 0, 0, 1, 0, 0, 0}},
		{threat, []float32{1, 0, 0, 0, 0, 0, 0}, []float32{0, 0, 0, 1, 0, 0, 0}}, // all that have a prior are lost
	} {
		tr := gametest.Must(mcts.New(b, c))(t)
		tr.Reset(test.p)
		if tr.SetPriors(test.policy) {
			t.Error("a root without moves has priors")
		}
		e := eval.New(hashed{}, eval.Options{})
		gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tr}, mcts.Limits{Visits: 1, Batch: 1}))
		if !tr.SetPriors(test.policy) {
			t.Errorf("after a visit %v has no moves", test.p)
		}
		got := make([]float32, b.Actions())
		for _, m := range tr.Moves(nil) {
			got[m.Action] = float32(m.Prior)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("priors are %v, want %v", got, test.want)
		}
		gametest.OK(t, mcts.Search(t.Context(), e, []*mcts.Tree{tr}, mcts.Limits{Visits: 2, Batch: 1}))
		if m := tr.Best(); m != 3 {
			t.Errorf("the next visit goes to %d, want 3, which has the largest prior", m)
		}
	}
}

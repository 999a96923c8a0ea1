package selfplay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/mcts"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/solver"
)

// Game is a finished game.
type Game struct {
	Number int
	Plies  []Ply         // the searched positions in order, and perhaps a last one that is proved
	Last   game.Position // after the last move
	Result int8          // for the first player: 1, 0 or -1

	Networks [2]int // of the first and the second player: their indexes in the league
}

// Proved reports whether the game ended because its last position was proved, rather than by the rules.
func (g *Game) Proved() bool {
	return len(g.Plies) > 0 && g.Plies[len(g.Plies)-1].Source == eval.Solved
}

// Ply is a position of a game and its search's result. Values are for the side to move.
type Ply struct {
	Position game.Position
	Visits   []uint32 // visits of a full search, by action; 1 for each of the best moves if the rules or a proof decide; nil for a fast search
	Q        float32  // value of the root, -1..1
	Source   eval.Source

	// Policy is the policy of a full search [A]: shares of the visits, or the improved policy of gumbel; equal shares of the best moves if
	// the rules or a proof decide; nil for a fast search, and without Config.Policy and Config.Details.
	Policy []float32 `json:",omitempty"`

	// Details, with Config.Details; nil and 0 if the rules or a proof decide.
	Prior []float32 `json:"-"` // [A] as the search has used them
	Raw   float32   `json:"-"` // the evaluator's own value, -1..1
}

// Remembered is the usual number of answers in the cache of a network; they take about 130 MB on 7x6.
const Remembered = 1 << 20

// Remember prepares a model's evaluator for Play. It adds a cache of a network's answers, because about half of the positions occur again,
// in the search for the next move or in another game. With it, a position and its mirror image get mirrored answers. A heuristic is as fast
// as a cache, so its evaluator is returned unchanged. answers is the size of the cache; the games do not depend on it. With a small network
// on a fast GPU, 0 can be faster, because looking up an answer takes longer than computing it again.
func Remember(e *eval.Evaluator, model string, answers int) *eval.Evaluator {
	return remember(e, model, answers, false)
}

// RememberPlain is Remember for Config.Plain: each mirror image has an answer of its own, so answers are the network's as they are.
func RememberPlain(e *eval.Evaluator, model string, answers int) *eval.Evaluator {
	return remember(e, model, answers, true)
}

func remember(e *eval.Evaluator, model string, answers int, apart bool) *eval.Evaluator {
	if heuristic.Is(model) {
		return e
	}
	c := eval.NewCache(answers)
	c.Apart = apart
	c.Transparent = true // records must not depend on which game evaluated a position first
	return eval.New(e.Backend(), eval.Options{Cache: c, Model: model})
}

// Play plays games first to first+n-1 with e, except those in have, many at once. It calls done with each finished game, in any order; the
// calls do not overlap. It returns an error if done or e fails, or if a position was answered neither by a network nor by a heuristic of
// the catalog. If ctx ends, Play discards unfinished games, which can be played again, and the error wraps ctx.Err().
func Play(ctx context.Context, e *eval.Evaluator, c Config, first, n int, have map[int]bool, done func(*Game) error) error {
	number := first
	next := func() (int, bool) {
		for have[number] {
			number++
		}
		number++
		return number - 1, number <= first+n
	}
	c = c.Sized(e, n)
	c.Parallel = min(c.Parallel, max(1, n))
	return PlayNext(ctx, e, c, next, done)
}

// PlayNext is Play for the games whose numbers next returns, until next returns false. Calls of next do not overlap with each other or with
// calls of done. A free seat calls next, and all games in progress wait for its answer. A seat for which next returned false stays empty.
func PlayNext(ctx context.Context, e *eval.Evaluator, c Config, next func() (int, bool), done func(*Game) error) error {
	return PlayLeague(ctx, []Member{{e, c.Plain}}, c, next, done)
}

// PlayLeague is PlayNext with the networks of a league: each game has two of them (pair), and the one
// that is to move searches. c.Plain is that of each member instead.
func PlayLeague(ctx context.Context, members []Member, c Config, next func() (int, bool), done func(*Game) error) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.Reuse && len(members) > 1 {
		return errors.New("selfplay: reuse does nothing in a league, where the next search is that of another network")
	}
	c = c.Sized(members[0].Evaluator, mostAtOnce)
	board, err := c.board()
	if err != nil {
		return err
	}
	player, err := sample.NewPlayer(board, c.Seed)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Config: c, members: members, ctx: inner, board: board, player: player, kinds: c.kinds(), prober: c.Exact.For(board), seats: map[*mcts.Tree]*seat{}, next: next, done: done, cancel: cancel}
	if len(members) == 1 {
		err = r.alone()
	} else {
		err = r.league()
	}
	if r.failed != nil && ctx.Err() == nil {
		return r.failed
	}
	return err
}

// alone plays the games of a single network.
func (r *run) alone() (err error) {
	trees := make([]*mcts.Tree, r.Parallel)
	for i := range trees {
		if trees[i], err = mcts.New(r.board, r.tree(0, true)); err != nil {
			return err
		}
		r.seats[trees[i]] = r.seat()
	}
	return mcts.Drive(r.ctx, r.members[0].Evaluator, trees, r.Batch, 1, r.advance)
}

type run struct {
	Config
	members []Member
	ctx     context.Context // checked between games, because no search checks it if the rules answer everything
	board   *game.Board
	player  *sample.Player       // plays openings
	kinds   []sample.Kind        // kinds of openings
	prober  *solver.Prober       // nil if games do not end by proofs
	seats   map[*mcts.Tree]*seat // by tree; the map never changes
	cancel  context.CancelFunc

	mu     sync.Mutex
	next   func() (number int, ok bool) // returns the next game to begin
	done   func(*Game) error
	failed error
}

// seat plays games with one tree, one after the other.
type seat struct {
	*Game    // nil between games
	position game.Position
	random   *rand.Rand // random source of the game
	seed     uint64     // seed of the game's trees
	full     bool       // the current search is a full one
	played   bool       // the tree has searched the position before this one, and
	action   int        // this action was played there
	policy   []float32  // [A], temporary
}

func (r *run) seat() *seat { return &seat{policy: make([]float32, r.board.Actions())} }

// step makes the move that the seat's last search has found, if there was one, and begins a new game
// if the game is over. It returns false if the seat stays empty.
func (r *run) step(s *seat, searched *mcts.Tree) bool {
	if s.Game != nil {
		over, err := r.move(s, searched)
		if err != nil {
			r.fail(s.Number, err)
			return false
		}
		if over && !r.finish(s) {
			return false
		}
	}
	for s.Game == nil || r.probe(s) {
		if s.Game != nil && !r.finish(s) || !r.begin(s) {
			return false
		}
	}
	// Draw one number for each search, full or fast, so that the game's further random numbers do not depend on which it is.
	s.full = s.random.Float64() < r.FullShare
	return true
}

// search is the seat's next search.
func (r *run) search(s *seat) (config mcts.Config, visits int) {
	config = r.tree(s.seed, s.full)
	config.Plain = r.mover(s).Plain
	if s.full {
		return config, r.Visits
	}
	return config, r.FastVisits
}

// advance is called by mcts.Drive when a tree has reached its goal. It returns the goal of the next
// search.
func (r *run) advance(t *mcts.Tree) (goal mcts.Goal) {
	s := r.seats[t]
	if !r.step(s, t) {
		return goal
	}
	var err error
	config, visits := r.search(s)
	keeps := r.Reuse && s.played
	if keeps {
		err = t.Retune(config)
	} else {
		err = t.Reconfigure(config, s.position)
	}
	if err != nil {
		panic(err) // Validate has checked all of it
	}
	if keeps {
		t.Advance(s.action)
	}
	if goal.Visits = visits; r.Reuse {
		goal.Visits += t.Visits()
	}
	return goal
}

// begin starts the seat's next game and plays its opening. It returns false if no game begins.
func (r *run) begin(s *seat) bool {
	if r.ctx.Err() != nil {
		return false
	}
	n, ok := r.number()
	if !ok {
		return false
	}
	s.Game = &Game{Number: n, Networks: pair(n, len(r.members))}
	s.random = rand.New(rand.NewPCG(r.Seed, uint64(n)))
	s.seed, s.played = s.random.Uint64(), false
	var err error
	if s.position, err = r.opening(s.random); err != nil {
		r.fail(n, fmt.Errorf("opening: %w", err))
	}
	return err == nil
}

// number returns the number of the next game, unless there is none or the play has failed.
func (r *run) number() (n int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return 0, false
	}
	return r.next()
}

// openingTries is the maximum number of attempts to draw an opening whose last position is not decided. After that, the game begins with
// the empty board.
const openingTries = 100

// opening returns a position after some moves of a kind of play. Its game is not over, and the side to move cannot win at once.
func (r *run) opening(random *rand.Rand) (game.Position, error) {
	kind, most := r.kinds[0], r.OpeningPlies
	if len(r.kinds) > 1 {
		kind = r.kinds[random.IntN(len(r.kinds))]
	}
	if kind == sample.Openings {
		_, to := kind.Plies(r.board)
		most = min(most, to)
	}
	plies := random.IntN(most + 1)
	for range openingTries {
		_, p, err := r.player.Game(r.ctx, kind, plies, random)
		if err != nil {
			return p, err
		}
		if r.board.Result(p) == game.Ongoing && r.board.Wins(p).IsZero() {
			return p, nil
		}
	}
	return game.Position{}, nil
}

// move records the search's result, makes a move, and reports whether the game is over.
func (r *run) move(s *seat, t *mcts.Tree) (over bool, err error) {
	ply, err := r.ply(s, t)
	if err != nil {
		return false, err
	}
	if result := t.Result(); r.prober != nil && ply.Source != eval.Rules && result != game.Ongoing {
		r.prove(s, result, provedMoves(r.board, t, s.position, result))
		return true, nil
	}
	s.Plies = append(s.Plies, ply)
	if s.full && r.Resign > 0 && float64(ply.Q) < -r.Resign {
		s.Last, s.Result = s.position, outcome(-1, s.position)
		return true, nil
	}
	s.played, s.action = true, r.choose(s, t)
	s.position = r.board.Play(s.position, s.action)
	switch r.board.Result(s.position) {
	case game.Ongoing:
		return false, nil
	case game.Loss:
		s.Result = outcome(-1, s.position)
	}
	s.Last = s.position
	return true, nil
}

// ply returns the training target of the position. If the rules decide the position, the target is their result without the search's
// discount, and all moves that lead to it, although the search plays only one.
func (r *run) ply(s *seat, t *mcts.Tree) (ply Ply, err error) {
	ply = Ply{Position: s.position, Q: float32(t.Value())}
	if o := r.board.Outlook(s.position); o.Result != game.Ongoing && !r.mover(s).Plain {
		ply.Q, ply.Source, ply.Visits = o.Result.Value(), eval.Rules, each(r.board, o.Moves)
		ply.Policy = r.shares(ply.Visits)
		return ply, nil
	}
	if ply.Source, err = source(t); err != nil {
		return ply, err
	}
	if s.full {
		t.Policy(s.policy, 1)
		ply.Visits = make([]uint32, len(s.policy))
		for a, p := range s.policy {
			ply.Visits[a] = uint32(math.Round(float64(p) * float64(r.Visits)))
		}
		if slices.Max(ply.Visits) == 0 { // fewer visits than moves, which are about equally good
			ply.Visits[t.Best()] = 1
		}
		if r.Policy || r.Details {
			ply.Policy = slices.Clone(s.policy)
		}
	}
	if r.Details {
		r.detail(&ply, t)
	}
	return ply, nil
}

// detail adds the details of a search.
func (r *run) detail(ply *Ply, t *mcts.Tree) {
	ply.Prior = make([]float32, r.board.Actions())
	for _, m := range t.Moves(nil) {
		ply.Prior[m.Action] = float32(m.Prior)
	}
	raw, _ := t.Raw()
	ply.Raw = float32(raw)
}

// each returns 1 visit for each of the moves, given by their cells, as a policy. It returns nil if there are no moves.
func each(b *game.Board, moves game.Bits) (visits []uint32) {
	if !moves.IsZero() {
		visits = make([]uint32, b.Actions())
	}
	for ; !moves.IsZero(); moves = moves.WithoutFirst() {
		visits[b.Action(moves.First())] = 1
	}
	return visits
}

// shares returns the shares of visits as the policy of a Ply. It returns nil if there are none, or if the Ply has no policy.
func (r *run) shares(visits []uint32) []float32 {
	if !r.Policy && !r.Details {
		return nil
	}
	return shares(visits)
}

func shares(visits []uint32) (policy []float32) {
	total := float32(0)
	for _, n := range visits {
		total += float32(n)
	}
	for _, n := range visits {
		policy = append(policy, float32(n)/total)
	}
	return policy
}

// probe ends the game if a probe proves its position, and reports whether it did. Positions that the rules decide are played to the end, so
// that records contain them.
func (r *run) probe(s *seat) bool {
	if r.prober == nil || r.board.Outlook(s.position).Result != game.Ongoing {
		return false
	}
	result, moves := r.prober.Moves(s.position, false)
	if result != game.Ongoing {
		r.prove(s, result, moves)
	}
	return result != game.Ongoing
}

// prove ends the game with a proved result for the side to move and the moves that are known to keep the result.
func (r *run) prove(s *seat, result game.Result, moves game.Bits) {
	visits := each(r.board, moves)
	s.Plies = append(s.Plies, Ply{Position: s.position, Visits: visits, Q: result.Value(), Source: eval.Solved, Policy: r.shares(visits)})
	s.Last, s.Result = s.position, outcome(int8(result.Value()), s.position)
}

// provedMoves returns the cells of the moves for which a search has proved that they lead to the root's result.
func provedMoves(b *game.Board, t *mcts.Tree, p game.Position, result game.Result) (cells game.Bits) {
	for _, m := range t.Moves(nil) {
		if m.Result == result {
			cells = cells.Or(b.Cell(p, m.Action))
		}
	}
	return cells
}

// outcome converts a result from the side to move at p to the first player, or back.
func outcome(result int8, p game.Position) int8 {
	if p.Mover() == 1 {
		return result
	}
	return -result
}

// choose returns the move: during the first TemperaturePlies drawn from the search's policy, after that the best one.
func (r *run) choose(s *seat, t *mcts.Tree) int {
	x := s.random.Float64()
	if s.position.Plies() >= r.TemperaturePlies || r.Temperature == 0 {
		return t.Best()
	}
	t.Policy(s.policy, r.Temperature)
	return eval.SampleAction(s.policy, x)
}

// source returns the source of the tree's leaves. If there are several, a heuristic takes precedence over any network (among heuristics,
// the last in the catalog), so that a network's name stands only for searches by networks alone. function and fast take precedence over cpu and gpu. If
// the rules answered everything, the source is Terminal. Any other source is an error, because a network would learn from the record under
// a wrong name.
func source(t *mcts.Tree) (eval.Source, error) {
	answered := t.Sources()
	if len(answered) == 0 {
		return eval.Terminal, nil
	}
	for _, s := range answered {
		if _, ok := heuristic.Named(s.String()); !ok && !s.Network() {
			return eval.None, fmt.Errorf("a position was answered by source %q, want a network or one of the heuristics %s", s, strings.Join(heuristic.Names(), ", "))
		}
	}
	for _, h := range slices.Backward(heuristic.All()) {
		if slices.Contains(answered, h.Source) {
			return h.Source, nil
		}
	}
	for _, s := range []eval.Source{eval.Function, eval.Fast, eval.ORTCPU, eval.ORT, eval.ORTTensorRT, eval.ORTCUDA, eval.CPU, eval.GPU} {
		if slices.Contains(answered, s) {
			return s, nil
		}
	}
	return eval.Cached, nil
}

// finish passes the seat's game to done, and reports whether the play continues.
func (r *run) finish(s *seat) bool {
	g := s.Game
	s.Game = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return false
	}
	if err := r.done(g); err != nil {
		r.failLocked(g.Number, err)
	}
	return r.failed == nil
}

// fail ends the play with err, unless an earlier error has ended it.
func (r *run) fail(number int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(number, err)
}

func (r *run) failLocked(number int, err error) {
	if r.failed == nil {
		r.failed = fmt.Errorf("selfplay: game %d: %w", number, err)
	}
	r.cancel()
}

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// model is a name that is served, or one version of it. What answers under it can change at any time; a request holds what it
// began with.
type model struct {
	name, ref string
	searches  bool                       // with the leaves of another, whose generation it shares
	current   atomic.Pointer[generation] // changed by the repository alone, which holds it
	stats     stats

	// The Server's loading guards these.
	config  Model       // of the generation
	changed any         // of the model's file, when the generation was made
	cache   *eval.Cache // of config.Cache answers; nil: none
}

// generation is one state of a model's weights. The repository holds it while it serves, and each request holds the one
// that it began with. The last one to let go ends it.
type generation struct {
	Loaded
	Settings
	inFlight  int             // batches under way at once
	evaluator *eval.Evaluator // of all requests, and of searches' leaves
	bytes     int64           // that it has of the budget

	holders atomic.Int64
	end     func() // see Server.endGeneration
}

// devices are the GPUs that compute for it.
func (l *Loaded) devices() []Device {
	if l.Devices == nil {
		return nil
	}
	return l.Devices()
}

// release lets a generation go, which must have been held. It does not wait for the end: a GPU takes its time to give memory
// back.
func (g *generation) release() {
	switch n := g.holders.Add(-1); {
	case n == 0:
		go g.end()
	case n < 0:
		panic("service: a generation is released twice by one holder")
	}
}

// wanted checks the outputs asked for; none stands for all. Those of a partial request have errors.
func (m *model) wanted(g *generation, names []string, partial bool) ([]string, error) {
	all := m.outputs(g)
	if partial {
		all = append(slices.Clip(all), errorOutput)
	}
	if len(names) == 0 {
		return all, nil
	}
	for i, name := range names {
		if !slices.Contains(all, name) {
			return nil, invalid("output %q: must be one of %v for model %s", name, all, m.name)
		}
		if slices.Contains(names[:i], name) {
			return nil, invalid("output %q: is asked for twice", name)
		}
	}
	return names, nil
}

func (m *model) outputs(g *generation) []string {
	switch {
	case m.searches:
		return searchedOutputs
	case g.Platform == SolverPlatform:
		return solvedOutputs
	}
	return evaluatedOutputs
}

// generation makes a model ready that was loaded. The caller holds it, and the Server's loading.
func (s *Server) generation(m *model, want Model, l Loaded) *generation {
	inFlight := cmp.Or(l.InFlight, 2)
	if want.InFlight > 0 {
		inFlight = want.InFlight * max(1, len(l.devices()))
	}
	if l.Platform == SolverPlatform {
		want.MaxRows = 1
	}
	options := eval.Options{OnAnswers: m.stats.answered, OwnRules: l.Platform == SolverPlatform, Batch: &eval.BatcherConfig{
		MaxRows: want.MaxRows, MaxDelay: want.MaxDelay, InFlight: inFlight, MaxQueued: want.MaxQueued, MaxWait: want.MaxWait,
		OnBatch: func(b eval.Sent) {
			if b.Accepted > 0 {
				s.searcher.stats.batch(b)
			}
			if b.Accepted < b.Rows {
				m.stats.batch(b)
			}
		},
	}}
	if want.Cache != m.config.Cache || m.cache == nil {
		m.cache = nil
		if want.Cache > 0 {
			m.cache = eval.NewCache(want.Cache)
		}
	}
	if l.Platform == NetworkPlatform {
		s.number++ // new weights must not get the answers of old ones
		options.Cache, options.Model = m.cache, fmt.Sprint(s.number)
	}
	g := &generation{Loaded: l, Settings: want.Settings, inFlight: inFlight, evaluator: eval.New(checked{l.Backend, s.config.Log}, options)}
	g.holders.Store(1)
	g.end = func() {
		defer s.generations.Done()
		s.endGeneration(m.ref, g)
	}
	return g
}

// warmUp evaluates Settings.WarmUp rows, all of the empty board, and throws their answers away.
func (s *Server) warmUp(g *generation) error {
	b := new(eval.Batch)
	for left := g.WarmUp; left > 0; left -= g.MaxRows {
		b.Reset(s.board, min(left, g.MaxRows))
		if err := (checked{g.Backend, s.config.Log}).Compute(context.Background(), b); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	return nil
}

// endGeneration closes a generation without holders. Requests that were cancelled have let go of it, but may have
// left a batch under way; the batcher waits for it.
func (s *Server) endGeneration(name string, g *generation) {
	defer s.memory.release(g.bytes)
	g.evaluator.Close()
	if g.Close == nil {
		return
	}
	if err := g.Close(); err != nil {
		s.config.Log.Warn("a model was not closed as it should be", "model", name, "version", g.Version, "error", err)
	}
}

// The platforms of models.
const (
	NetworkPlatform   = "evald_network"
	HeuristicPlatform = "evald_heuristic"
)

// checked is a backend that refuses answers that are not finite, and turns a fault of the backend into an error.
type checked struct {
	eval.Backend
	log *slog.Logger
}

func (c checked) Compute(ctx context.Context, b *eval.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil { // it is in a goroutine of the batcher's, where it would end the program
			c.log.Error("an evaluator ended in a fault", "fault", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("evaluate: the evaluator ended in a fault, which is logged")
		}
	}()
	if err := c.Backend.Compute(ctx, b); err != nil {
		return err
	}
	return b.Finite()
}

// Evaluator is a model that is served, by its name or NAME@VERSION, for callers in this program, which count as one client together.
// It is always that of the newest weights. If the name is empty, it is the model that is searched with.
func (s *Server) Evaluator(name string) (*eval.Evaluator, error) {
	name = cmp.Or(name, searchModel)
	_, g, err := s.models.find(name, "")
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return eval.New(newest{&s.models, name, g.Backend.Attributes()}, eval.Options{}), nil
}

// newest is a backend: the model that is served under a name, for the time of each batch.
type newest struct {
	models     *repository
	name       string
	attributes eval.Attributes
}

// Attributes are those of the weights at the start.
func (n newest) Attributes() eval.Attributes { return n.attributes }

// Compute implements eval.Backend. It is an error after the model was unloaded and when the server has ended.
func (n newest) Compute(ctx context.Context, b *eval.Batch) error {
	_, g, err := n.models.hold(n.name, "")
	if err != nil {
		return errors.New(status.Convert(err).Message())
	}
	defer g.release()
	return g.evaluator.For(eval.Caller{Client: "this program", Priority: eval.High, Accepted: true}).Leaves(ctx, b)
}

// repository is the models that are served.
type repository struct {
	mu     sync.RWMutex
	models map[string]*model   // by their refs
	names  map[string][]*model // the versions of each name, the newest first
	failed map[string]string   // why models that were to be loaded are not, and why the last reload of those that are served failed
	ended  bool                // it holds no generation any more
}

// find is a model that is to be described, and what answers for it: the newest version if none is given, here or as NAME@VERSION.
func (r *repository) find(name, version string) (*model, *generation, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.choose(name, version)
}

// choose is find; mu is held.
func (r *repository) choose(name, version string) (*model, *generation, error) {
	if version == "" {
		name, version, _ = strings.Cut(name, "@")
	}
	versions := r.names[name]
	if len(versions) == 0 {
		return nil, nil, refuse(codes.NotFound, "model %s is not served; there are %v", short.Quote(name), slices.Sorted(maps.Keys(r.names)))
	}
	for _, m := range versions {
		if g := m.current.Load(); version == "" || version == g.Version {
			return m, g, nil
		}
	}
	return nil, nil, refuse(codes.NotFound, "model %q has version %s here, not %s", name, strings.Join(r.versions(name), " and "), short.Quote(version))
}

// reloadFailed reports whether the last attempt to load a model that is served failed.
func (r *repository) reloadFailed(m *model) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.models[m.ref] == m && r.failed[m.ref] != ""
}

// versions are those of a name, the newest first. mu is held.
func (r *repository) versions(name string) (all []string) {
	for _, m := range r.names[name] {
		all = append(all, m.current.Load().Version)
	}
	return all
}

// hold is the model of a request, and the generation that answers it, which the caller releases.
func (r *repository) hold(name, version string) (*model, *generation, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.ended {
		return nil, nil, errDraining
	}
	m, g, err := r.choose(name, version)
	if err == nil {
		g.holders.Add(1) // beside the repository, which does not let go while mu is locked
	}
	return m, g, err
}

// order makes names anew. mu is locked.
func (r *repository) order() {
	r.names = map[string][]*model{}
	for _, m := range r.models {
		r.names[m.name] = append(r.names[m.name], m)
	}
	for _, versions := range r.names {
		slices.SortFunc(versions, func(a, b *model) int { return compareVersions(b.current.Load().Version, a.current.Load().Version) })
	}
}

// compareVersions orders numbers by their values, and before them other texts.
func compareVersions(a, b string) int {
	n, errN := strconv.Atoi(a)
	m, errM := strconv.Atoi(b)
	if errN != nil || errM != nil {
		n, m = -1, -1
	}
	return cmp.Or(cmp.Compare(n, m), cmp.Compare(a, b))
}

// end lets all generations go.
func (r *repository) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	for _, m := range r.models {
		if !m.searches { // it shares the generation of another
			m.current.Load().release()
		}
	}
}

// list is every model by name, and the newest version first.
func (r *repository) list() (all []*model) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(r.names)) {
		all = append(all, r.names[name]...)
	}
	return all
}

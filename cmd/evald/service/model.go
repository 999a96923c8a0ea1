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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/short"
)

// model is a name that is served. What answers under it can change at any time; a request holds what it began with.
type model struct {
	name     string
	searches bool                       // with the leaves of another, whose generation it shares
	current  atomic.Pointer[generation] // changed by the repository alone, which holds it
	stats    stats
	changed  any // of the model's file, when its generation was made; guarded by the Server's loading
}

// generation is one state of a model's weights. The repository holds it while it serves, and each request holds the one
// that it began with. The last one to let go ends it.
type generation struct {
	Loaded
	evaluator *eval.Evaluator // of all requests, and of searches' leaves
	bytes     int64           // that it has of the budget

	holders atomic.Int64
	end     func() // see Server.endGeneration
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
func (m *model) wanted(names []string, partial bool) ([]string, error) {
	all := m.outputs()
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

func (m *model) outputs() []string {
	if m.searches {
		return searchedOutputs
	}
	return evaluatedOutputs
}

// generation makes a model ready that was loaded; number tells it from those of the same name before. The caller holds it.
func (s *Server) generation(m *model, l Loaded, number uint64) *generation {
	options := eval.Options{OnAnswers: m.stats.answered, Batch: &eval.BatcherConfig{
		MaxRows: s.config.Batching.MaxRows, MaxDelay: s.config.Batching.MaxDelay, InFlight: cmp.Or(l.InFlight, s.config.Batching.InFlight),
		MaxQueued: s.config.Batching.MaxQueued, OnBatch: func(b eval.Sent) {
			if b.Accepted > 0 {
				s.searcher.stats.batch(b)
			}
			if b.Accepted < b.Rows {
				m.stats.batch(b)
			}
		},
	}}
	if s.cache != nil && l.Platform == NetworkPlatform {
		options.Cache, options.Model = s.cache, fmt.Sprintf("%s %d", m.name, number)
	}
	g := &generation{Loaded: l, evaluator: eval.New(checked{l.Backend, s.config.Log}, options)}
	g.holders.Store(1)
	g.end = func() {
		defer s.generations.Done()
		s.endGeneration(m.name, g)
	}
	return g
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

// Evaluator is a model that is served, for callers in this program, which count as one client together. It is always that of the
// newest weights.
func (s *Server) Evaluator(name string) (*eval.Evaluator, error) {
	m, err := s.models.find(name, "")
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return eval.New(newest{&s.models, name, m.current.Load().Backend.Attributes()}, eval.Options{}), nil
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
	models map[string]*model
	failed map[string]string // why models that were to be loaded are not, and why the last reload of those that are served failed
	ended  bool              // it holds no generation any more
}

// find is a model that is to be described. If a version is given, it must be the one that is served.
func (r *repository) find(name, version string) (*model, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.models[name]; m != nil {
		return m, m.current.Load().is(name, version)
	}
	return nil, r.unknown(name)
}

// unknown is the error for a model that is not served. mu is held.
func (r *repository) unknown(name string) error {
	return refuse(codes.NotFound, "model %q is not served; there are %v", name, slices.Sorted(maps.Keys(r.models)))
}

// reloadFailed reports whether the last attempt to load a model that is served failed.
func (r *repository) reloadFailed(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.models[name] != nil && r.failed[name] != ""
}

// is refuses another version than this one.
func (g *generation) is(name, version string) error {
	if version != "" && version != g.Version {
		return refuse(codes.NotFound, "model %q has version %s here, not %q", name, g.Version, version)
	}
	return nil
}

// hold is the model of a request, and the generation that answers it, which the caller releases.
func (r *repository) hold(name, version string) (*model, *generation, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.models[name]
	switch {
	case r.ended:
		return nil, nil, errDraining
	case m == nil:
		return nil, nil, r.unknown(name)
	}
	g := m.current.Load()
	if err := g.is(name, version); err != nil {
		return nil, nil, err
	}
	g.holders.Add(1) // beside the repository, which does not let go while mu is locked
	return m, g, nil
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

// list is every model by name.
func (r *repository) list() []*model {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.models), func(a, b *model) int { return cmp.Compare(a.name, b.name) })
}

// load makes a model ready, a new one or a new generation of one that is served, which answers until then.
func (s *Server) load(name string) error {
	if name == searchModel {
		return invalid("model %q searches with %q: load that", name, s.config.Models[0])
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	s.models.mu.RLock()
	m := s.models.models[name]
	s.models.mu.RUnlock()
	if m == nil {
		m = &model{name: name}
	}
	var changed any
	if s.config.Changed != nil {
		var err error
		if changed, err = s.config.Changed(name); err != nil {
			return s.notLoaded(name, err)
		}
	}
	loaded, bytes, err := s.open(name)
	if err != nil {
		return s.notLoaded(name, err)
	}
	m.changed = changed
	s.number++
	g := s.generation(m, loaded, s.number)
	g.bytes = bytes
	s.models.mu.Lock()
	if s.models.ended {
		s.models.mu.Unlock()
		s.endGeneration(name, g)
		return errDraining
	}
	defer s.models.mu.Unlock()
	s.generations.Add(1)
	old := m.current.Swap(g)
	if s.models.models[name] == m { // or else it is new, or unload has let go of it
		old.release()
	}
	s.models.models[name] = m
	if name == s.config.Models[0] {
		s.searcher.current.Store(g)
	}
	delete(s.models.failed, name)
	s.config.Log.Info("model is ready", "model", name, "version", loaded.Version, "how", loaded.Describe)
	return nil
}

// open loads a model, for which bytes of the budget are taken before it is read.
func (s *Server) open(name string) (l Loaded, bytes int64, err error) {
	if s.config.Bytes != nil {
		if bytes, err = s.config.Bytes(name); err != nil {
			return l, 0, err
		}
	}
	read, err := s.memory.reserve(bytes, LeastMemory(s.config.Limits.Body))
	if err != nil {
		return l, 0, err
	}
	defer read()
	if l, err = s.config.Load(name); err != nil {
		s.memory.release(bytes)
	}
	return l, bytes, err
}

func (s *Server) notLoaded(name string, err error) error {
	s.models.mu.Lock()
	m := s.models.models[name]
	if m != nil {
		m.stats.reloadFailed()
		s.models.failed[name] = "the last reload failed, and the weights before it serve: " + err.Error()
	} else if !strings.Contains(name, "@") { // versions are not listed, and there is no end to their numbers
		s.models.failed[name] = err.Error()
	}
	s.models.mu.Unlock()
	s.config.Log.Warn("model could not be loaded", "model", short.Text(name), "error", err)
	return invalid("model %q: %s", name, err)
}

// unload ends a model's service; requests under way are answered.
func (s *Server) unload(name string) error {
	if name == searchModel || name == s.config.Models[0] {
		return invalid("model %q: is what \"search\" searches with, and stays", name)
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	m := s.models.models[name]
	if m == nil || s.models.ended {
		return refuse(codes.NotFound, "model %q is not served", name)
	}
	delete(s.models.models, name)
	m.current.Load().release()
	delete(s.models.failed, name)
	s.config.Log.Info("model was unloaded", "model", name)
	return nil
}

// Reload loads every model anew, for new weights under the same names. Where that fails the old ones still serve.
func (s *Server) Reload() {
	for _, m := range s.models.list() {
		if !m.searches {
			_ = s.load(m.name) // logged
		}
	}
}

// watch reloads models whose files have changed, until ctx ends.
func (s *Server) watch(ctx context.Context) {
	for tick := time.Tick(s.config.Watch); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		for _, m := range s.models.list() {
			if m.searches {
				continue
			}
			s.loading.Lock()
			old := m.changed
			s.loading.Unlock()
			if now, err := s.config.Changed(m.name); err == nil && now != old && s.load(m.name) != nil {
				s.loading.Lock()
				m.changed = now // not again until it changes once more
				s.loading.Unlock()
			}
		}
	}
}

package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/engine/eval"
)

// model is a name that is served. What answers under it can change at any time; a request keeps what it began with.
type model struct {
	name     string
	searches bool // with the leaves of another, whose generation it shares
	current  atomic.Pointer[generation]
	stats    stats
	changed  any // of the model's file, when its generation was made; guarded by the Server's loading
}

// generation is one state of a model's weights. It ends when the last request that began with it does: its batchers
// have no goroutine of their own.
type generation struct {
	Loaded
	batcher *eval.Batcher // of requests; bounded, and behind the rules
	leaves  *eval.Batcher // of searches, which were accepted as a whole, and whose trees look at the rules
}

// wanted checks the outputs asked for; none stands for all.
func (m *model) wanted(names []string) ([]string, error) {
	all := m.outputs()
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

// generation makes a model ready that was loaded; number tells it from those of the same name before.
func (s *Server) generation(m *model, l Loaded, number uint64) *generation {
	e := l.Evaluator
	if s.cache != nil && l.Platform == NetworkPlatform {
		e = s.cache.For(fmt.Sprintf("%s %d", m.name, number), e)
	}
	c := eval.BatcherConfig{
		MaxRows: s.config.Batching.MaxRows, MaxDelay: s.config.Batching.MaxDelay, InFlight: cmp.Or(l.InFlight, s.config.Batching.InFlight),
		MaxQueued: s.config.Batching.MaxQueued, OnBatch: m.stats.batch,
	}
	leaves := c
	leaves.MaxQueued, leaves.OnBatch = 0, s.searcher.stats.batch
	check := func(e eval.Evaluator) eval.Evaluator { return checked{e, &m.stats, s.config.Log} }
	return &generation{l, eval.NewBatcher(check(eval.NewRuled(e)), c), eval.NewBatcher(check(e), leaves)}
}

// The platforms of models.
const (
	NetworkPlatform   = "evald_network"
	HeuristicPlatform = "evald_heuristic"
)

// checked refuses answers that are not finite, and counts who answered.
type checked struct {
	eval.Evaluator
	stats *stats
	log   *slog.Logger
}

func (c checked) Evaluate(ctx context.Context, b *eval.Batch) (err error) {
	defer func() {
		if p := recover(); p != nil { // it is in a goroutine of the batcher's, where it would end the program
			c.log.Error("an evaluator ended in a fault", "fault", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("evaluate: the evaluator ended in a fault, which is logged")
		}
	}()
	if err := c.Evaluator.Evaluate(ctx, b); err != nil {
		return err
	}
	if row, ok := b.Finite(); !ok {
		return fmt.Errorf("%w: position %+v", eval.ErrNotFinite, b.Pos[row])
	}
	c.stats.answered(b.Source)
	return nil
}

// Evaluator is a model that is served, for callers in this program: its batches are apart from those of requests, and it is
// always that of the newest weights.
func (s *Server) Evaluator(name string) (eval.Evaluator, error) {
	m, err := s.models.find(name, "")
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return newest{m}, nil
}

type newest struct{ *model }

// Evaluate implements eval.Evaluator.
func (n newest) Evaluate(ctx context.Context, b *eval.Batch) error {
	return n.current.Load().leaves.Evaluate(ctx, b)
}

// repository is the models that are served.
type repository struct {
	mu     sync.RWMutex
	models map[string]*model
	failed map[string]string // why models that were to be loaded are not
}

// find is the model of a request. A version, where it is given, must be the one that is served.
func (r *repository) find(name, version string) (*model, error) {
	r.mu.RLock()
	m := r.models[name]
	r.mu.RUnlock()
	if m == nil {
		return nil, refuse(codes.NotFound, "model %q is not served; there are %v", name, r.names())
	}
	if have := m.current.Load().Version; version != "" && version != have {
		return nil, refuse(codes.NotFound, "model %q has version %s here, not %q", name, have, version)
	}
	return m, nil
}

// list is every model by name.
func (r *repository) list() []*model {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*model
	for _, m := range r.models {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *model) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (r *repository) names() []string {
	var names []string
	for _, m := range r.list() {
		names = append(names, m.name)
	}
	return names
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
	loaded, err := s.config.Load(name)
	if err != nil {
		return s.notLoaded(name, err)
	}
	m.changed = changed
	s.number++
	g := s.generation(m, loaded, s.number)
	m.current.Store(g)
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	s.models.models[name] = m
	if name == s.config.Models[0] {
		s.searcher.current.Store(g)
	}
	delete(s.models.failed, name)
	s.config.Log.Info("model is ready", "model", name, "version", loaded.Version, "how", loaded.Describe)
	return nil
}

func (s *Server) notLoaded(name string, err error) error {
	if !strings.Contains(name, "@") { // versions are not listed, and there is no end to their numbers
		s.models.mu.Lock()
		s.models.failed[name] = err.Error()
		s.models.mu.Unlock()
	}
	s.config.Log.Warn("model could not be loaded", "model", clip(name), "error", err)
	return invalid("model %q: %s", name, err)
}

// unload ends a model's service; requests under way are answered.
func (s *Server) unload(name string) error {
	if name == searchModel || name == s.config.Models[0] {
		return invalid("model %q: is what \"search\" searches with, and stays", name)
	}
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	if s.models.models[name] == nil {
		return refuse(codes.NotFound, "model %q is not served", name)
	}
	delete(s.models.models, name)
	delete(s.models.failed, name)
	s.config.Log.Info("model was unloaded", "model", name)
	return nil
}

// Reload loads every model anew, for new weights under the same names. Where that fails the old ones go on.
func (s *Server) Reload() {
	for _, m := range s.models.list() {
		if !m.searches {
			_ = s.load(m.name) // logged
		}
	}
}

// watch reloads models whose files have changed.
func (s *Server) watch() {
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

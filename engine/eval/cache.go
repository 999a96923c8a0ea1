package eval

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/internal/prefetch"
)

// Cache stores answers of networks in a bounded number of entries, which any number of models and boards share.
//
// A position and its mirror image share one entry. The backend always gets the canonical one of the two, so that an answer does not depend
// on which came first; the other one gets the mirrored policy. If a position is its own mirror image, its policy is the mean of the
// backend's policy and the mirrored one. So answers through a cache are mirror-consistent. Answers of heuristics and of networks of pattern
// tables are not stored: they are cheap to compute, and a fallback's answer must not be returned once the network works again.
type Cache struct {
	// Transparent gives stored answers their original source instead of Cached. Set it before use.
	Transparent bool

	// Apart gives a position and its mirror image entries of their own, so that answers are the
	// backend's as they are. Set it before use.
	Apart bool

	shards []shard
	none   bool     // nothing is stored
	models sync.Map // model name -> uint32
	nextID atomic.Uint32
	work   *sync.Pool // *missed; a pointer, because the runtime keeps a pool and the struct that contains it for two collections
}

// ways is the number of slots that may hold a given position.
const ways = 4

type shard struct {
	mu    sync.Mutex
	clock uint32
	slots []slot // sets of `ways`
	_     [24]byte
}

type slot struct {
	pos    game.Position
	tag    uint64 // rules and model; 0 for an empty slot
	used   uint32 // the shard's clock when the slot was last used
	by     uint8  // index of the answer's source in lasting
	wdl    [3]float32
	policy []float32
}

// lasting lists the sources whose answers are stored.
var lasting = append([]Source{GPU, CPU, Function}, onnxRuntime...)

// missed is the part of a batch that was not in the cache.
type missed struct {
	tag      uint64
	memory   Batch
	batch    Batch // the rows of memory in use
	rows     []int // rows of the caller's batch
	mirrored []bool
}

// CacheEntry is the minimum size of an entry of a Cache in bytes.
const CacheEntry = int(unsafe.Sizeof(slot{}))

// NewCache returns a cache for about this number of answers, rounded up to a power of two, at least 256. A cache of 0 answers stores none,
// but answers through it are still mirror-consistent. An entry takes about 100 bytes, and 4 more for each action.
func NewCache(entries int) *Cache {
	const shards = 64
	perShard := 1 << bits.Len(uint((max(entries, shards*ways)+shards-1)/shards-1))
	c := &Cache{shards: make([]shard, shards), work: &sync.Pool{New: func() any { return new(missed) }}}
	for i := range c.shards {
		if entries > 0 {
			c.shards[i].slots = make([]slot, perShard)
		}
	}
	c.none = entries == 0
	return c
}

// model returns the number of a model's name. The first call for a name assigns it.
func (c *Cache) model(name string) uint32 {
	id, known := c.models.Load(name)
	if !known {
		id, _ = c.models.LoadOrStore(name, c.nextID.Add(1))
	}
	return id.(uint32)
}

// tag packs the rules and the model into 64 bits, without loss.
func tag(model uint32, r game.Rules) uint64 {
	t := uint64(model)<<32 | uint64(r.Rows)<<24 | uint64(r.Columns)<<16 | uint64(r.InARow)<<8
	if r.Gravity {
		t |= 1
	}
	return t
}

// look answers the rows of b that are in the cache, and collects the others. The caller must return the result to c.work.
func (c *Cache) look(b *Batch, model uint32) *missed {
	m := c.work.Get().(*missed)
	m.tag = tag(model, b.Board.Rules())
	n := len(b.Pos)
	m.memory.Reset(b.Board, n)
	m.rows, m.mirrored = m.rows[:0], slices.Grow(m.mirrored[:0], n)[:n]
	for next := range n + ahead {
		if next < n {
			if m.memory.Pos[next], m.mirrored[next] = b.Pos[next], false; !c.Apart {
				m.memory.Pos[next], m.mirrored[next] = b.Board.Canonical(b.Pos[next])
			}
			if !c.none {
				c.prefetch(m.memory.Pos[next], m.tag)
			}
		}
		i := next - ahead
		if i < 0 || !c.none && c.load(b, i, m.memory.Pos[i], m.tag, m.mirrored[i]) {
			continue
		}
		missed := len(m.rows) // at most i, so this overwrites no later row
		m.memory.Pos[missed], m.mirrored[missed] = m.memory.Pos[i], m.mirrored[i]
		m.rows = append(m.rows, i)
	}
	m.batch = m.memory.Slice(0, len(m.rows))
	return m
}

// ahead is the number of rows by which the prefetch of slots is ahead. A large cache does not fit the processor's caches.
const ahead = 8

// prefetch loads the slots that may hold a position.
func (c *Cache) prefetch(p game.Position, tag uint64) {
	_, slots := c.set(p, tag)
	prefetch.Lines(unsafe.Pointer(&slots[0]))
	prefetch.Lines(unsafe.Pointer(&slots[ways-1]))
}

// keep copies the answers of the missed rows into b, and stores those whose sources are in lasting.
func (c *Cache) keep(b *Batch, m *missed) {
	for j, i := range m.rows {
		if next := j + ahead; next < len(m.rows) && !c.none {
			c.prefetch(m.batch.Pos[next], m.tag)
		}
		if !c.Apart && b.Board.Mirror(m.batch.Pos[j]) == m.batch.Pos[j] {
			symmetrise(b.Board, m.batch.PolicyRow(j))
		}
		if by := slices.Index(lasting, m.batch.Source[j]); by >= 0 && !c.none {
			c.store(&m.batch, j, m.tag, uint8(by))
		}
		copyMirrored(b, i, m.batch.WDLRow(j), m.batch.PolicyRow(j), m.mirrored[j])
		b.Source[i] = m.batch.Source[j]
	}
}

func symmetrise(board *game.Board, policy []float32) {
	for a := range policy {
		if m := board.MirrorAction(a); m > a {
			mean := (policy[a] + policy[m]) / 2
			policy[a], policy[m] = mean, mean
		}
	}
}

// copyMirrored writes an answer into row i, with its policy mirrored if mirrored is set.
func copyMirrored(b *Batch, i int, wdl, policy []float32, mirrored bool) {
	copy(b.WDLRow(i), wdl)
	to := b.PolicyRow(i)
	if !mirrored {
		copy(to, policy)
		return
	}
	for a, p := range policy {
		to[b.Board.MirrorAction(a)] = p
	}
}

// set returns the shard and the slots that may hold a position.
func (c *Cache) set(p game.Position, tag uint64) (*shard, []slot) {
	h := p.Hash() ^ tag*0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	s := &c.shards[h>>58]
	first := int(h&uint64(len(s.slots)-1)) &^ (ways - 1)
	return s, s.slots[first : first+ways]
}

func (c *Cache) load(b *Batch, i int, p game.Position, tag uint64, mirrored bool) bool {
	s, slots := c.set(p, tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range slots {
		if e := &slots[k]; e.tag == tag && e.pos == p {
			s.clock++
			e.used = s.clock
			copyMirrored(b, i, e.wdl[:], e.policy, mirrored)
			if b.Source[i] = Cached; c.Transparent {
				b.Source[i] = lasting[e.by]
			}
			return true
		}
	}
	return false
}

// store writes row j into the slot that holds the position, else into an empty one, else into the least recently used one.
func (c *Cache) store(b *Batch, j int, tag uint64, by uint8) {
	p, wdl, policy := b.Pos[j], b.WDLRow(j), b.PolicyRow(j) // a panic leaves no half of an entry
	s, slots := c.set(p, tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	victim := &slots[0]
	for k := range slots {
		e := &slots[k]
		if e.tag == tag && e.pos == p || e.tag == 0 {
			victim = e
			break
		}
		if s.clock-e.used > s.clock-victim.used {
			victim = e
		}
	}
	victim.pos, victim.tag, victim.used, victim.by = p, tag, s.clock, by
	copy(victim.wdl[:], wdl)
	victim.policy = append(victim.policy[:0], policy...)
}

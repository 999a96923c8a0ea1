package solver

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// table is the transposition table of the fast search: buckets of eight words, one cache line each. It never grows.
// A key of keyBits bits is multiplied by an odd factor, which permutes the numbers of that many bits. The bucket is the high part of the
// mixed key times the number of buckets. So the keys of one bucket are consecutive, at most 2^tagBits of them, and their low tagBits bits
// identify them: a hit can never be another position.
//
// The fields of a word, from bit 0: tag, generation, work, move, lower bound, upper bound. Everything is in one word, so threads share it
// without a lock. Work is a small logarithm of the nodes that the entry cost; the cheapest entry of a bucket is replaced first. Reset
// starts a new generation; the memory is cleared only when the generations run out.
type table struct {
	buckets []bucket
	shared  bool // more than one thread writes

	keyBits                uint
	tagMask, matchMask     uint64
	genShift               uint
	gen, genMax            uint64
	workShift, moveShift   uint
	lowerShift, upperShift uint
	moveMask, scoreMask    uint64
	bias                   int // added to scores before they are stored
	used                   atomic.Int64
}

const (
	slots    = 8 // words in a bucket
	workBits = 4
	workMask = 1<<workBits - 1
)

type bucket [slots]uint64

// newTable returns a table for keys of keyBits bits, moves below columns and scores from -maxScore to maxScore. It takes at most bytes,
// unless so few buckets could not distinguish the keys.
func newTable(bytes int, keyBits uint, columns, maxScore int) *table {
	t := &table{keyBits: keyBits, bias: maxScore}
	scoreBits := uint(bits.Len(uint(2 * maxScore)))
	moveBits := uint(bits.Len(uint(columns)))
	room := roomOf(columns, maxScore)
	n := uint64(bytes) / uint64(unsafe.Sizeof(bucket{}))
	n = max(n, 1)
	if keyBits+1 > room { // the generation needs at least one bit
		n = max(n, 1<<(keyBits+1-room))
	}
	if keyBits < 32 {
		n = min(n, uint64(1)<<keyBits/4+1)
	}
	n = max(n, 2)
	keys := (^uint64(0)>>(64-keyBits))/n + 1 // keys in the fullest bucket: 2^keyBits / n, rounded up
	tagBits := uint(bits.Len64(keys - 1))
	genBits := min(room-tagBits, 16)
	t.tagMask = 1<<tagBits - 1
	t.genShift = tagBits
	t.genMax = 1<<genBits - 1
	t.matchMask = 1<<(tagBits+genBits) - 1
	t.workShift = tagBits + genBits
	t.moveShift = t.workShift + workBits
	t.lowerShift = t.moveShift + moveBits
	t.upperShift = t.lowerShift + scoreBits
	t.moveMask = 1<<moveBits - 1
	t.scoreMask = 1<<scoreBits - 1
	t.gen = 1 << t.genShift
	t.buckets = allocate(int(n))
	return t
}

// roomOf is the number of bits for tag and generation in a word.
func roomOf(columns, maxScore int) uint {
	return 64 - 2*uint(bits.Len(uint(2*maxScore))) - uint(bits.Len(uint(columns))) - workBits
}

// allocate returns n buckets aligned to a cache line.
func allocate(n int) []bucket {
	raw := make([]bucket, n+1)
	adviseHuge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(raw))), uintptr(len(raw))*unsafe.Sizeof(bucket{})))
	words := unsafe.Slice(&raw[0][0], (n+1)*slots)
	skip := int(-uintptr(unsafe.Pointer(&words[0])) % unsafe.Sizeof(bucket{}) / 8)
	return unsafe.Slice((*bucket)(unsafe.Pointer(&words[skip])), n)
}

// fill returns the fraction of the words in use.
func (t *table) fill() float64 {
	return min(1, float64(t.used.Load())/float64(len(t.buckets)*slots)) // threads may count a word twice
}

func (t *table) reset() {
	t.used.Store(0)
	if t.gen>>t.genShift < t.genMax {
		t.gen += 1 << t.genShift
		return
	}
	clear(t.buckets)
	t.gen = 1 << t.genShift
}

// mix permutes the keys so that their high bits are evenly distributed over the buckets.
func (t *table) mix(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 << ((64 - t.keyBits) & 63) }

// at returns the bucket of a mixed key, and the bits that identify a word of that key.
func (t *table) at(mixed uint64) (b *bucket, match uint64) {
	i, _ := bits.Mul64(mixed, uint64(len(t.buckets)))
	return &t.buckets[i], mixed>>((64-t.keyBits)&63)&t.tagMask | t.gen
}

func (t *table) put(p *uint64, v uint64) {
	if t.shared {
		atomic.StoreUint64(p, v)
		return
	}
	*p = v
}

// probe returns the word of a mixed key, or 0 if there is none.
func (t *table) probe(mixed uint64) uint64 {
	b, match := t.at(mixed)
	for i := range b {
		if w := atomic.LoadUint64(&b[i]); (w^match)&t.matchMask == 0 {
			return w
		}
	}
	return 0
}

func (t *table) lower(w uint64) int { return int(w>>(t.lowerShift&63)&t.scoreMask) - t.bias }
func (t *table) upper(w uint64) int { return int(w>>(t.upperShift&63)&t.scoreMask) - t.bias }

// move is the stored column, or at least the number of columns if none is known.
func (t *table) move(w uint64) int { return int(w >> (t.moveShift & 63) & t.moveMask) }

// store saves the bounds of a position, combined with stored ones. If move is moveMask, no move is known, and a stored move is kept.
func (t *table) store(mixed uint64, lower, upper, move int, nodes uint64) {
	b, match := t.at(mixed)
	victim, least := &b[0], uint64(1)<<63
	for i := range b {
		w := atomic.LoadUint64(&b[i])
		if (w^match)&t.matchMask == 0 {
			victim = &b[i]
			lower, upper = max(lower, t.lower(w)), min(upper, t.upper(w))
			if uint64(move) == t.moveMask {
				move = t.move(w)
			}
			least = 1
			break
		}
		work := w>>(t.workShift&63)&workMask + 1
		if (w^match)&t.matchMask&^t.tagMask != 0 {
			work = 0 // empty, or from an earlier generation
		}
		if work < least {
			victim, least = &b[i], work
		}
	}
	if least == 0 {
		if !t.shared {
			t.used.Store(t.used.Load() + 1)
		} else {
			t.used.Add(1)
		}
	}
	work := uint64(min(bits.Len64(nodes)*2/3, workMask))
	t.put(victim, match|work<<(t.workShift&63)|uint64(move)<<(t.moveShift&63)|
		uint64(lower+t.bias)<<(t.lowerShift&63)|uint64(upper+t.bias)<<(t.upperShift&63))
}

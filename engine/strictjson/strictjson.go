// Package strictjson refuses JSON that two readers may understand differently. One case is an object that has a key twice:
// encoding/json takes the last value, and other readers the first. The other case is bytes that are not UTF-8, which
// encoding/json replaces.
package strictjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/evald/evald/engine/short"
)

// MaxDepth is how deep objects and lists may be nested, which is deeper than any of ours.
const MaxDepth = 100

// MaxKeys is how many keys an object may have, which is more than any of ours has.
const MaxKeys = 10_000

// fewKeys is how many keys a map may have had to be cleared and used again; clearing a larger one takes too long.
const fewKeys = 64

// object is what is open at one depth: an object with the keys that it has so far, or a list.
type object struct {
	isList  bool
	wantKey bool              // the next string is a key
	keys    map[string]string // from what is compared to the key as it was written
}

// Check names the first key, at any depth, that its object has twice. Two keys that differ only in case count as the same,
// because encoding/json takes them for the same field. Text that is not JSON may pass: the decoder says what is wrong with
// it. Check passes over the text once, and its memory is that of the keys of the objects that are open.
func Check(text []byte) error { return check(text, fold) }

// CheckExact is Check for JSON that is decoded into maps: there, keys that differ in case are two keys.
func CheckExact(text []byte) error { return check(text, func(key string) string { return key }) }

func check(text []byte, same func(key string) string) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("byte %d is no UTF-8", invalidAt(text))
	}
	var open []object // [:depth] are
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("objects and lists are more than %d deep in one another", MaxDepth)
			}
			if depth > len(open) {
				open = append(open, object{})
			}
			o := &open[depth-1]
			o.isList, o.wantKey = c == '[', c == '{'
			if len(o.keys) > fewKeys {
				o.keys = nil
			}
			clear(o.keys)
		case '}', ']':
			depth = max(0, depth-1)
		case ',':
			if depth > 0 {
				open[depth-1].wantKey = !open[depth-1].isList
			}
		case '"':
			end := stringEnd(text, i)
			if depth > 0 && open[depth-1].wantKey {
				open[depth-1].wantKey = false
				if err := open[depth-1].add(text[i:end], same); err != nil {
					return err
				}
			}
			i = end - 1
		}
	}
	return nil
}

// stringEnd is the index after the string that begins at text[from], or the end of the text.
func stringEnd(text []byte, from int) int {
	for i := from + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// add adds a key, given in its quotes, and refuses one that the object has already.
func (o *object) add(quoted []byte, same func(key string) string) error {
	key := string(quoted[1:max(1, len(quoted)-1)])
	if strings.Contains(key, `\`) && json.Unmarshal(quoted, &key) != nil {
		return nil // this is not JSON
	}
	compared := same(key)
	if before, twice := o.keys[compared]; twice && before == key {
		return fmt.Errorf("key %s is there twice", short.Quote(key))
	} else if twice {
		return fmt.Errorf("key %s is there twice, once as %s", short.Quote(key), short.Quote(before))
	}
	if len(o.keys) == MaxKeys {
		return fmt.Errorf("an object has more than %d keys", MaxKeys)
	}
	if o.keys == nil {
		o.keys = map[string]string{}
	}
	o.keys[compared] = key
	return nil
}

// fold is equal for keys that encoding/json takes for the same field.
func fold(key string) string {
	return strings.Map(func(r rune) rune { // to the smallest of those that differ in case alone
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, key)
}

func invalidAt(text []byte) int {
	i := 0
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		i += size
	}
	return i
}

package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	var many strings.Builder
	for i := range MaxKeys + 1 {
		fmt.Fprintf(&many, `"k%d":1,`, i)
	}
	for text, says := range map[string]string{
		`{}`: "", `[]`: "", ``: "", `3`: "", `"a"`: "", `[1,[2,"x","x"],{"a":1},{"a":2}]`: "",
		`{"a":"b","b":"a"}`:                   "",
		`{"a":{"a":{"a":1}},"b":1}`:           "",
		`{"a":["a","a"],"b":{}}`:              "",
		`{"a":1,"a":2}`:                       `key "a" is there twice`,
		` { "a" : 1 , "a" : 1 } `:             `key "a" is there twice`,
		`{"a":{"b":[{"c":1,"d":{},"c":[]}]}}`: `key "c" is there twice`,
		`{"x":{"y":1},"x":1}`:                 `key "x" is there twice`,
		`{"x":[{"y":1},{"y":1}],"z":1,"x":1}`: `key "x" is there twice`,
		`{"mark":1,"\u006dark":2}`:            `key "mark" is there twice`,
		`{"Mark":1,"mark":2}`:                 `key "mark" is there twice, once as "Mark"`,
		`{"mark":1,"mar\u212a":2}`:            `is there twice, once as "mark"`, // the sign of kelvins, which encoding/json takes for a k
		`{"":1,"":1}`:                         `key "" is there twice`,
		`{"a\"":1,"a\"":2}`:                   `key "a\"" is there twice`,
		`{"a":"\"a\":1,","b":"}{"}`:           "",
		"{\"a\":\"\xff\"}":                    "byte 6 is no UTF-8",
		"\x80":                                "byte 0 is no UTF-8",
		`{"a":"` + "\ufffd" + `"}`:            "",
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth):                 "",
		strings.Repeat("[", MaxDepth+1):                                               "more than 100 deep",
		strings.Repeat(`{"a":`, MaxDepth+1):                                           "more than 100 deep",
		strings.Repeat(`[{"a":1}],`, 5*MaxDepth):                                      "", // none of them in another
		"{" + many.String() + `"x":1}`:                                                "more than 10000 keys",
		`{"` + strings.Repeat("x", 1e6) + `":1,"` + strings.Repeat("x", 1e6) + `":1}`: `xxx".. is there twice`,
		`{"a":1,"a`: "", `{"a`: "", `{"\`: "", `}]`: "", `{,,,"a"`: "", // for the decoder to refuse
	} {
		err := Check([]byte(text))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want %q", text, err, says)
		}
		if exact := CheckExact([]byte(text)); fmt.Sprint(exact) != fmt.Sprint(err) && !strings.Contains(says, "once as") {
			t.Errorf("%.60q: exactly %v, and else %v", text, exact, err)
		} else if exact != nil && strings.Contains(says, "once as") {
			t.Errorf("%.60q: exactly %v", text, exact)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%.60q: an error of %d bytes", text, len(err.Error()))
		}
	}
}

// An object with many keys does not make the objects after it slow.
func TestCheckTime(t *testing.T) {
	var text strings.Builder
	text.WriteString("[{")
	for i := range MaxKeys {
		fmt.Fprintf(&text, `"k%d":1,`, i)
	}
	text.WriteString(`"k":1}`)
	first := strings.Replace(text.String(), `,"k":1}`, "}", 1)
	in := []byte(first + strings.Repeat(`,{"a":1}`, 200_000) + "]")
	began := time.Now()
	if err := Check(in); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second { // if each object clears a large map, it takes half a minute
		t.Errorf("%d bytes took %v", len(in), took)
	}
}

// reference looks for a key that is there twice among the decoder's tokens.
func reference(d *json.Decoder) (twice bool, err error) {
	token, err := d.Token()
	if err != nil {
		return false, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return false, nil
	}
	seen := map[string]bool{}
	for d.More() {
		if delim == '{' {
			key, err := d.Token()
			if err != nil {
				return false, err
			}
			twice = twice || seen[fold(key.(string))]
			seen[fold(key.(string))] = true
		}
		within, err := reference(d)
		if err != nil {
			return false, err
		}
		twice = twice || within
	}
	_, err = d.Token()
	return twice, err
}

// For valid JSON, Check says what a reader of the tokens says. It never refuses a text in which no key is there twice.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":{"b":1},"c":[{"b":1,"B":1}]}`, `{"\u0061":1,"a":[]}`, "{\"\xff\":1}", `{"id":"x","moves":"44","visits":8}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Check(text)
		if !json.Valid(text) {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		twice, failed := reference(d)
		if _, end := d.Token(); failed != nil || !errors.Is(end, io.EOF) {
			t.Fatalf("%q: %v, %v", text, failed, end)
		}
		if says := err != nil && strings.Contains(err.Error(), "twice"); says != twice && (err == nil || says) {
			t.Errorf("%q: %v, but a key twice: %v", text, err, twice)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	text := []byte(`{"board":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,2,1,0,0],"mark":1}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(text); err != nil {
			b.Fatal(err)
		}
	}
}

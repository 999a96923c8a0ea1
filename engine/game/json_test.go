package game_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
)

// Texts that two readers may understand differently are refused, at any depth, and errors stay short.
func TestDecodeJSON(t *testing.T) {
	long := strings.Repeat("x", 1e6)
	for text, want := range map[string]string{
		`{}`: "", `null`: "", `{"mark":1,"x":[1,[2,"x","x"],{"a":1},{"a":2}]}`: "",
		`{"x":{"x":{"x":1}},"y":"mark"}`:          "",
		`{"a\"":1,"a":2}`:                         "",
		`{"x":"` + "\ufffd" + `"}`:                "",
		`{"mark":1,"mark":1}`:                     `key "mark" is there twice`,
		`{"x":{"b":[{"c":1,"d":{},"c":[]}]}}`:     `key "c" is there twice`,
		`{"x":[{"y":1},{"y":1}],"z":1,"x":1}`:     `key "x" is there twice`,
		`{"mark":1,"\u006dark":2}`:                `key "mark" is there twice`,
		`{"":1,"":1}`:                             `key "" is there twice`,
		`{"MARK":1,"x":{},"mark":2}`:              `key "mark" is there twice, once as "MARK"`,
		`{"mark":1,"mar\u212a":2}`:                `is there twice, once as "mark"`, // the sign of kelvins
		"{\"x\":\"\xff\"}":                        "byte 6 is no UTF-8",
		`{"x":"\ud800"}`:                          "invalid surrogate pair",
		`{"mark":1} {}`:                           "after top-level value",
		`{"mark":`:                                "unexpected end of JSON input",
		`{"in":{"mark":"x"}}`:                     `in.mark "string": must be a whole number: the player to move, 1 or 2`,
		`{"mark":1e99}`:                           `mark "number 1e99": must be a whole number: the player to move, 1 or 2`,
		`[1]`:                                     `json "array": must be an object`,
		strings.Repeat("[", 20_000):               "exceeded max depth",
		`{"` + long + `":1,"` + long + `":1}`:     `xxx".. is there twice`,
		`{"x":[` + strings.Repeat(`{"a":`, 20000): "exceeded max depth",
	} {
		var into struct {
			Mark int `json:"mark"`
			In   struct {
				Mark int `json:"mark"`
			} `json:"in"`
		}
		err := game.DecodeJSON([]byte(text), &into)
		if says := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && !strings.Contains(says, want) || len(says) > 500 {
			t.Errorf("%.60q: %.500v, want %q", text, err, want)
		}
		if _, ok := errors.AsType[*game.ParseError](err); err != nil && !ok {
			t.Errorf("%.60q: %T", text, err)
		}
	}
}

package web

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/evald/evald/cmd/evald/internal/gamefile"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

func TestPictures(t *testing.T) {
	h := handler(t, Config{})
	r := asked(t, h, "/ui/position.svg?position=7x6x4:4455&numbers=1&size=200", "")
	svg := string(gametest.Must(io.ReadAll(r.Body))(t))
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(svg, `<title id="title">7x6x4:4455, Red to move</title>`) || !strings.Contains(svg, `width="200"`) {
		t.Errorf("status %d, %v: %s", r.StatusCode, r.Header, svg)
	}
	if plain := string(gametest.Must(io.ReadAll(asked(t, h, "/ui/position.svg?position=7x6x4:4455&size=200", "").Body))(t)); plain == svg {
		t.Error("numbers=1 changes nothing")
	}
	r = asked(t, h, "/ui/position.png?position=3x3x3free:51&size=90", "")
	m, err := png.Decode(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "image/png" || m.Bounds().Dx() != 90 {
		t.Errorf("status %d, %v: %v", r.StatusCode, r.Header, err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/ui/position.svg?position=-", nil))
	if w.Code != http.StatusOK {
		t.Errorf("HEAD: status %d", w.Code)
	}
}

func TestPictureRefusals(t *testing.T) {
	h := handler(t, Config{})
	for path, want := range map[string]string{
		"/ui/position.svg":                                                `moves "": is empty`,
		"/ui/position.svg?position=48":                                    "move 2 is \\\"8\\\"",
		"/ui/position.svg?position=99x99x4:1":                             "position",
		"/ui/position.svg?position=4&position=5":                          "position is given 2 times",
		"/ui/position.svg?position=4&numbers=yes":                         "must be 0 or 1",
		"/ui/position.png?position=4&size=1000000":                        "must be 64 to 1024",
		"/ui/position.png?position=4&size=-1":                             "must be 64 to 1024",
		"/ui/position.png?position=4&size=1e2":                            "must be 64 to 1024",
		"/ui/position.svg?position=4&onload=x":                            "is not known",
		"/ui/position.svg?position=4;size=9":                              "cannot be read",
		"/ui/position.svg?position=%zz":                                   "cannot be read",
		"/ui/position.svg?position=" + strings.Repeat("4", 3000):          "more than 2048 bytes",
		"/ui/game.txt?position=4&first=" + strings.Repeat("x", 201):       "must be at most 200",
		"/ui/game.txt?position=4&second=a%0a7x6x4:1":                      "one line of text",
		"/ui/position.svg?position=" + url.QueryEscape("<script>x:4</x>"): "position",
	} {
		r := asked(t, h, path, "")
		text := string(gametest.Must(io.ReadAll(r.Body))(t))
		if r.StatusCode != http.StatusBadRequest || r.Header.Get("Content-Type") != "application/json" || !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, `"`, `\"`)) || len(text) > 1000 {
			t.Errorf("%.80s: status %d, %s, want %s", path, r.StatusCode, text, want)
		}
	}
}

func TestGameFile(t *testing.T) {
	h := handler(t, Config{})
	r := asked(t, h, "/ui/game.txt?"+url.Values{"position": {"7x6x4:4151617"}, "first": {"Zoë"}, "second": {"uct:sims=5"}}.Encode(), "")
	g, err := gamefile.Read(r.Body)
	if err != nil || g.First != "Zoë" || g.Second != "uct:sims=5" || g.Result() != "first wins" || game.FormatMoves(g.Board.Rules(), g.Moves) != "4151617" || g.Date.IsZero() || !strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("status %d, %+v, %v", r.StatusCode, g, err)
	}
}

// Whatever the address asks for, the answer is a picture or a refusal.
func FuzzPicture(f *testing.F) {
	gametest.OneGoroutine(f)
	f.Add("position=7x6x4:4455&numbers=1&size=64")
	f.Add("position=3x3x3free:5")
	f.Add("position=%3Csvg%3E&size=99999999999999999999")
	h := handler(f, Config{})
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/ui/position.svg", "/ui/position.png", "/ui/game.txt"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL.RawQuery = query
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			body := w.Body.Bytes()
			switch {
			case w.Code == http.StatusBadRequest:
			case w.Code != http.StatusOK:
				t.Fatalf("%s?%s: status %d, %s", path, query, w.Code, body)
			case strings.HasSuffix(path, "svg") && (xml.Unmarshal(body, new(struct{})) != nil || bytes.Contains(body, []byte("<script"))):
				t.Fatalf("%s?%s: %s", path, query, body)
			case strings.HasSuffix(path, "png"):
				gametest.Must(png.Decode(bytes.NewReader(body)))(t)
			case strings.HasSuffix(path, "txt"):
				gametest.Must(gamefile.Read(bytes.NewReader(body)))(t)
			}
		}
	})
}

package web

import (
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

var (
	variable = regexp.MustCompile(`var\(\s*(--[\w-]+)\s*(,)?`)
	defined  = regexp.MustCompile(`(--[\w-]+)\s*:\s*([^;}]+)`)
	given    = regexp.MustCompile(`["'](--[\w-]+)["']`) // by scripts
	linked   = regexp.MustCompile(`/ui/([\w-]+\.(?:css|js|svg))`)
	styled   = regexp.MustCompile(`new URL\("([\w-]+\.css)"`)
	viewed   = regexp.MustCompile(`later\("(\w+)"`)
	imported = regexp.MustCompile(`["']\./([\w-]+\.js)["']`)
	comment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	media    = regexp.MustCompile(`(?s)@media ([^{]+)\{((?:[^{}]*\{[^{}]*\})*[^{}]*)\}`)
	root     = regexp.MustCompile(`(?s):root\s*\{([^}]*)\}`)
)

// sources returns the texts of all files that a page loads, by name.
func sources(t *testing.T, start string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	var load func(text string)
	load = func(text string) {
		text = viewed.ReplaceAllString(text, `"./$1.js"`)
		for _, m := range slices.Concat(linked.FindAllStringSubmatch(text, -1), imported.FindAllStringSubmatch(text, -1), styled.FindAllStringSubmatch(text, -1)) {
			if _, known := texts[m[1]]; !known {
				texts[m[1]] = comment.ReplaceAllString(string(gametest.Must(page.ReadFile("page/"+m[1]))(t)), "")
				load(texts[m[1]])
			}
		}
	}
	load(start)
	texts["the page"] = start
	return texts
}

// variables returns the variables that a text's :root rules define, outside of media queries if
// query is "", else in those of that query.
func variables(text, query string) map[string]string {
	parts := media.ReplaceAllString(text, "")
	if query != "" {
		parts = ""
		for _, m := range media.FindAllStringSubmatch(text, -1) {
			if strings.TrimSpace(m[1]) == query {
				parts += m[2]
			}
		}
	}
	found := map[string]string{}
	for _, r := range root.FindAllStringSubmatch(parts, -1) {
		for _, m := range defined.FindAllStringSubmatch(r[1], -1) {
			found[m[1]] = strings.TrimSpace(m[2])
		}
	}
	return found
}

// Every variable that a page's styles, scripts or pictures use is defined on that page, and every
// colour in every theme.
func TestThemes(t *testing.T) {
	gametest.OneGoroutine(t)
	index := string(gametest.Must(page.ReadFile("page/index.html"))(t))
	for name, start := range map[string]string{"index.html": index, "cluster.html": clusterPage} {
		files := sources(t, start)
		sheets, known, uses := "", map[string]bool{}, 0
		for file, text := range files {
			if path.Ext(file) == ".css" {
				sheets += text
				for _, m := range defined.FindAllStringSubmatch(text, -1) {
					known[m[1]] = true
				}
			}
			for _, m := range given.FindAllStringSubmatch(text, -1) {
				known[m[1]] = true
			}
		}
		for file, text := range files {
			for _, m := range variable.FindAllStringSubmatch(text, -1) {
				if uses++; !known[m[1]] && m[2] == "" {
					t.Errorf("%s: %s uses %s, which is not defined", name, file, m[1])
				}
			}
		}
		if uses < 50 || len(files) < 4 {
			t.Errorf("%s: %d uses of variables in %d files", name, uses, len(files))
		}
		light := variables(sheets, "")
		for _, m := range media.FindAllStringSubmatch(sheets, -1) {
			query := strings.TrimSpace(m[1])
			if !strings.Contains(query, "prefers-color-scheme") && !strings.Contains(query, "prefers-contrast") {
				continue
			}
			theme := variables(sheets, query)
			for variable, value := range light {
				if _, there := theme[variable]; !there && strings.HasPrefix(value, "#") {
					t.Errorf("%s: %s has no colour in %s", name, variable, query)
				}
			}
			for variable := range theme {
				if _, there := light[variable]; !there {
					t.Errorf("%s: %s is defined in %s only", name, variable, query)
				}
			}
		}
	}
	if all := slices.Sorted(maps.Keys(sources(t, index))); !slices.Contains(all, "puzzles.css") || !slices.Contains(all, "icon.svg") {
		t.Errorf("the page's files are %q", all)
	}
}

// The page names all modules of its first view beforehand, so that the browser need not find them one after the other.
func TestPreloads(t *testing.T) {
	index := string(gametest.Must(page.ReadFile("page/index.html"))(t))
	var named []string
	for _, m := range regexp.MustCompile(`rel="modulepreload" href="/ui/([\w-]+\.js)"`).FindAllStringSubmatch(index, -1) {
		named = append(named, m[1])
	}
	own := regexp.MustCompile(`(?m)^import [^;]*?"\./([\w-]+\.js)";`)
	needed := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		for _, m := range own.FindAllSubmatch(gametest.Must(page.ReadFile("page/"+name))(t), -1) {
			if child := string(m[1]); !needed[child] {
				needed[child] = true
				add(child)
			}
		}
	}
	add("main.js")
	if want := slices.Sorted(maps.Keys(needed)); len(want) < 20 || !slices.Equal(named, want) {
		t.Errorf("index.html names %q before, and main.js needs %q", named, want)
	}
}

// Text can be read, and marks can be seen, on both grounds of each theme.
func TestContrast(t *testing.T) {
	text := comment.ReplaceAllString(string(gametest.Must(page.ReadFile("page/style.css"))(t)), "")
	for _, query := range []string{"", "(prefers-color-scheme: dark)"} {
		colours := variables(text, query)
		least := map[string]float64{}
		for name := range colours {
			switch {
			case slices.Contains([]string{"--text", "--faint", "--mark", "--red-text", "--yellow-text", "--even", "--warn", "--win", "--loss"}, name):
				least[name] = 4.5
			case regexp.MustCompile(`^--(c\d|policy|visits)$`).MatchString(name):
				least[name] = 3
			}
		}
		if len(least) != 9+2+2 {
			t.Errorf("%q: colours %v", query, least)
		}
		for name, want := range least {
			for _, ground := range []string{"--ground", "--card"} {
				if got := contrast(t, colours[name], colours[ground]); got < want {
					t.Errorf("%q: %s has a contrast of %.2f with %s, want %.1f", query, name, got, ground, want)
				}
			}
		}
	}
}

// contrast is the contrast ratio of two colours such as #2257c5, according to WCAG 2.1.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) (sum float64) {
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			part := float64(gametest.Must(strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8))(t)) / 255
			if part <= 0.04045 {
				part /= 12.92
			} else {
				part = math.Pow((part+0.055)/1.055, 2.4)
			}
			sum += weight * part
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

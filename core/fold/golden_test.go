package fold

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"holdfast/core/usage"
)

var update = flag.Bool("update", false, "write the goldens anew; review the diff")

// A golden is a conversation in words, calls made in it, and what the model is
// told. Each file of testdata/tools/*.txtar is one call: its first line is the
// tool, the rest its arguments; the file of the same name with ".out" is the
// answer. The comment of the archive names the conversation. Calls follow each
// other in one session.
func TestGoldens(t *testing.T) {
	files, err := filepath.Glob("testdata/tools/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(string(ar.Comment), ":")
	k := stories(t, name)
	write := *update
	want := map[string]string{}
	for _, f := range ar.Files {
		want[f.Name] = string(f.Data)
	}
	out := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		if strings.HasSuffix(f.Name, ".out") {
			continue
		}
		tool, args, _ := strings.Cut(string(f.Data), "\n")
		got := strings.TrimRight(tell(k, tool, strings.TrimSpace(args)), "\n") + "\n"
		out.Files = append(out.Files, f, txtar.File{Name: f.Name + ".out", Data: []byte(got)})
		if !write && got != want[f.Name+".out"] {
			t.Errorf("%s\n%s\nis answered\n%s\nwant\n%s", f.Name, f.Data, got, want[f.Name+".out"])
		}
	}
	if write {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tell carries out one line of a golden: a tool, or one of the words "carrier"
// (the text of a block), "nudge" and "view".
func tell(k *talk, tool, args string) string {
	switch tool {
	case "carrier":
		r, _ := ParseRef(args)
		b := k.st.Block(r.Number)
		return CarrierText(b, k.bodies[b.Body])
	case "nudge":
		_, _, n := k.turn(exact(truthful(k)))
		if n.Text == "" {
			return "(not asked: " + n.Reason + ")"
		}
		return "(" + n.Reason + ")\n" + n.Text
	case "restore":
		r, _ := ParseRef(args)
		k.st, _ = Undo(k.elems, k.st, r.Number)
		return "(undone)"
	case "turn":
		k.turn(usage.Usage{Input: 100, Cached: 5_000, CacheWrite: 19_900, Source: usage.Exact})
		k.turn(usage.Usage{Input: 100, Cached: 24_900, Source: usage.Exact})
		return "(two turns)"
	case "overlay":
		o := k.st.Overlays[0]
		text := k.msgs[o.Elem].Parts[o.Core].Text
		short := Shorten(text, o, k.elems[places(k.elems)[o.Elem]].Ref)
		return short[:40] + " …\n… " + short[1_980:2_140] + " …\n… " + short[len(short)-40:]
	case "purge":
		r, _ := ParseRef(args)
		k.st, _ = PurgeBlocks(k.st, []int64{r.Number})
		return "(purged)"
	case "rewind":
		cut := len(k.elems) - 30
		var ns []int64
		for _, e := range k.elems[cut:] {
			ns = append(ns, e.N)
		}
		k.elems = k.elems[:cut]
		k.st, _ = Align(k.elems, Change{Rewound: ns}, k.st)
		return "(rewound)"
	}
	args = strings.ReplaceAll(args, "$SUMMARY", summary)
	return k.run(tool, args).Result
}

// stories are the conversations the goldens are told in.
func stories(t *testing.T, name string) *talk {
	switch name {
	case "small":
		return started(t, 20)
	case "agents":
		k := newTalk(t).system("You are helpful.").user("Port the parser to the new lexer.")
		k.call("Read", `{"file_path":"/src/lexer.go"}`).result(words("package lexer", 2_500))
		k.call("Edit", `{"file_path":"/src/lexer.go","old_string":"i","new_string":"i+1"}`).result("The file /src/lexer.go has been updated.")
		k.call("Bash", `{"command":"go test ./..."}`).result(words("ok  lexer 0.1s", 4_000))
		return k.tail()
	case "fresh":
		return newTalk(t).system("You are helpful.").user("Hello").says("Hello! What shall we do?").user("Fix it.")
	case "pressure":
		k := started(t, 60)
		k.lim = Limits{Window: 40_000, Terms: priced(20), Economics: true}
		return k
	case "priced":
		k := started(t, 60)
		k.lim = Limits{Window: 200_000, Terms: priced(20)}
		k.rh = k.rh.Report(exact(40_000))
		return k
	case "flood":
		k := newTalk(t).system("You are helpful.").user("Read all of it.").rounds(2, 30_000).rounds(120, 2_000)
		k.lim = Limits{Window: 40_000, Terms: priced(20)}
		return k.tail()
	case "giants":
		k := newTalk(t).system("You are helpful.").user("Read all of it.").rounds(4, 60_000).rounds(3, 2_000)
		k.lim = Limits{Window: 60_000, Terms: priced(20)}
		return k.tail()
	case "folds":
		k := newTalk(t).system("You are helpful.").user("Read all of it.").rounds(80, 2_000).tail()
		for i := int64(1); i < 160; i += 10 {
			k.fold(Ref{Number: i}.String(), Ref{Number: i + 9}.String())
		}
		k.lim = Limits{Window: 200_000, Growth: 800, Terms: priced(200)}
		k.rh.Baseline = 0
		return k
	case "growth":
		k := started(t, 120)
		k.lim = Limits{Window: 200_000, Terms: priced(20), Economics: true}
		return k
	}
	t.Fatalf("no story %q", name)
	return nil
}

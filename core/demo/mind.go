package demo

import (
	"regexp"
	"slices"
	"strings"
)

// How the scripted model uses the folding tools it is offered. It reacts to
// what it is sent: it folds when a reminder names ranges, with the refs it
// reads there; it looks up what it no longer sees, when the script wants it;
// and it opens the fold a search names. Of the wording around them it knows
// nothing but the tools' names and what a ref looks like.

// The tools by the ends of their names.
const (
	toolCompress   = "compress"
	toolDecompress = "decompress"
	toolSearch     = "search"
	toolStatus     = "status"
)

// mind is what the model makes of one request.
type mind struct {
	script Script
	at     place
	// tools are the folding tools offered, by what they do.
	tools map[string]string
	// folds are the summaries that stand in the request.
	folds []carried
	// offers are the ranges a reminder names.
	offers []string
}

// carried is a summary the model wrote earlier, as it comes back.
type carried struct{ ref, text string }

func (s Script) mind(q *request, at place) mind {
	m := mind{script: s, at: at, tools: map[string]string{}, folds: foldsIn(q.messages)}
	for _, t := range q.tools {
		if name, ok := strings.CutPrefix(t.name, "hf_"); ok {
			does, _, _ := strings.Cut(name, "_")
			m.tools[does] = t.name
		}
	}
	if m.tools[toolCompress] != "" {
		m.offers = offersIn(latest(q.messages), m.tools[toolCompress])
	}
	return m
}

// foldRef finds where a summary begins.
func foldRef() *regexp.Regexp { return regexp.MustCompile(`(?m)^\[fold (b\d+)\b`) }

// foldsIn finds the summaries in the user's messages.
func foldsIn(messages []heard) (out []carried) {
	head := foldRef()
	for _, h := range messages {
		for _, p := range h.parts {
			if h.role != "user" || p.kind != partText || !strings.Contains(p.text, "[fold b") {
				continue
			}
			starts := head.FindAllStringSubmatchIndex(p.text, -1)
			for i, at := range starts {
				end := len(p.text)
				if i+1 < len(starts) {
					end = starts[i+1][0]
				}
				out = append(out, carried{p.text[at[2]:at[3]], p.text[at[0]:end]})
			}
		}
	}
	return out
}

// offersIn reads the refs at the heads of the lines that follow a mention of
// the compress tool, outside the answers of folding tools.
func offersIn(recent []heard, compress string) (refs []string) {
	line := regexp.MustCompile(`(?m)^\W{0,4}([mb]\d+)(?:\W{1,5}([mb]\d+))?\b`)
	for _, h := range recent {
		for _, p := range h.parts {
			if w, _, ok := readMark(p.id); ok && w == ours || h.role == "assistant" {
				continue
			}
			if strings.HasPrefix(p.text, "[fold ") {
				continue
			}
			_, rest, _ := strings.Cut(p.text, compress)
			for _, m := range line.FindAllStringSubmatch(rest, -1) {
				refs = append(refs, m[1])
				if m[2] != "" {
					refs = append(refs, m[2])
				}
			}
		}
	}
	return refs
}

// next is what the model does for itself before it plays its turn, if anything.
func (m mind) next() (Turn, bool) {
	t := m.script.at(m.at.turn)
	switch {
	case len(m.offers) > 0 && m.may(toolCompress):
		return m.fold(), true
	case t.Wants != "" && len(m.folds) > 0 && m.may(toolSearch):
		return m.use("What was said about that is folded; I look for it.", toolSearch, object{{"query", t.Wants}}), true
	case t.Wants != "" && m.found() != "" && m.may(toolDecompress):
		return m.use("The whole of it stands in "+m.found()+".", toolDecompress, object{{"blockId", m.found()}}), true
	}
	return Turn{}, false
}

// may reports whether a tool is offered and was not called at this turn yet.
func (m mind) may(does string) bool {
	return m.tools[does] != "" && !slices.Contains(m.at.made, m.tools[does])
}

// found is the fold that the answers of this turn name.
func (m mind) found() string {
	if !slices.Contains(m.at.made, m.tools[toolSearch]) {
		return ""
	}
	return regexp.MustCompile(`\bb\d+\b`).FindString(strings.Join(m.at.answers, "\n"))
}

// use is a turn with one call of a folding tool.
func (m mind) use(thinking, does string, args object) Turn {
	return Turn{Thinking: thinking, Calls: []Call{m.call(does, args)}}
}

func (m mind) call(does string, args object) Call {
	return Call{Tool: m.tools[does], Args: mustEncode(args), mark: markOf(ours, m.at.turn)}
}

// glance adds a look at the folds to a turn that has calls of its own.
func (m mind) glance(t Turn) Turn {
	if t.Glances && len(t.Calls) > 0 && len(m.folds) > 0 && m.may(toolStatus) {
		t.Calls = append([]Call{m.call(toolStatus, object{{"view", "ranges"}})}, t.Calls...)
	}
	return t
}

// nestTopic begins the topic of a fold made of folds.
const nestTopic = "everything up to "

// fold folds all that is offered into one summary. Two folds that are no nests
// yet go in as well.
func (m mind) fold() Turn {
	from, to := m.offers[0], m.offers[len(m.offers)-1]
	if plain := slices.IndexFunc(m.folds, carried.plain); plain >= 0 && len(m.folds)-plain >= 2 {
		from = m.folds[plain].ref
	}
	kept, nested := m.folds, false
	if k := slices.IndexFunc(m.folds, func(c carried) bool { return c.ref == from }); k >= 0 {
		kept, nested = m.folds[:k], true
	}
	summary, topic := m.summary(kept)
	if nested {
		topic = nestTopic + topic[strings.LastIndex(topic, " ")+1:]
	}
	return m.use("What is finished can be folded before I go on.", toolCompress, object{{"content", []object{
		{{"startId", from}, {"endId", to}, {"summary", summary}, {"topic", topic}}}}})
}

func (c carried) plain() bool { return !strings.Contains(c.text, nestTopic) }

// summary writes down what later work needs of the turns so far, apart from
// what the summaries that stay say already.
func (m mind) summary(kept []carried) (summary, topic string) {
	var lines, topics []string
	goal := ""
	known := func(text string) bool {
		return slices.ContainsFunc(kept, func(c carried) bool { return strings.Contains(c.text, text) })
	}
	for _, t := range m.script[:min(m.at.turn, len(m.script))] {
		if t.Goal != "" {
			goal = t.Goal
		}
		if t.Fact == "" {
			continue
		}
		goal = ""
		if !known(t.Fact) {
			lines = append(lines, "- "+t.Fact)
			name, _, _ := strings.Cut(t.Fact, ":")
			topics = append(topics, name)
		}
	}
	if goal != "" {
		lines = append(lines, "- In hand: "+goal)
	}
	if topics == nil {
		topics = []string{"the task in hand"}
	}
	return "What was settled in the work on tidehouse:\n" + strings.Join(lines, "\n"), "packages " + strings.Join(topics, ", ")
}

// perform plays the turn of the script a request asks for, or what the model
// does for itself before it.
func (m *Model) perform(label string, q *request) Turn {
	at := m.opts.Script.find(q)
	m.mu.Lock()
	c := m.label(label).meter.request(q.prompt, m.opts.Script.moment(at.turn), q.lifetime, q.marked)
	m.mu.Unlock()
	q.billed = &c
	mind := m.opts.Script.mind(q, at)
	if own, ok := mind.next(); ok {
		return own
	}
	return mind.glance(m.opts.Script.at(at.turn))
}

// tokens is the output a turn takes, four bytes a token.
func (t *Turn) tokens() int {
	n := len(t.Thinking) + len(t.Text)
	for _, c := range t.Calls {
		n += len(c.Tool) + len(c.Args)
	}
	return fixedOutput + (n+3)/4
}

// fixedOutput is what a reply takes beside its text.
const fixedOutput = 20

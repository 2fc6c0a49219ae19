package engine

import (
	"fmt"
	"math"
)

// random is splitmix64: small, the same everywhere, and good enough for weights.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit is uniform in [-1, 1).
func (r *random) unit() float32 { return float32(r.next()>>40)/(1<<23) - 1 }

// builder collects the tensors of a model.
type builder struct {
	m       Model
	tensors []tensor
}

// matrix adds random weights of a standard deviation; rows that keep says no to
// are zero. Every tensor has its own stream, so that models which differ in one
// place are equal elsewhere.
func (b *builder) matrix(name string, std float64, keep func(row int) bool, dims ...int) {
	b.add(name, true, std, keep, dims...)
}

func (b *builder) add(name string, half bool, std float64, keep func(row int) bool, dims ...int) {
	r := random(b.m.Seed*1_000_003 + uint64(len(b.tensors))*7_919)
	scale := float32(std * math.Sqrt(3)) // of a uniform distribution
	b.tensors = append(b.tensors, tensor{name, dims, half, func(row int, dst []float32) {
		for i := range dst {
			dst[i] = r.unit() * scale
		}
		if keep != nil && !keep(row) {
			clear(dst)
		}
	}})
}

func (b *builder) constant(name string, val float32, dims ...int) {
	b.tensors = append(b.tensors, tensor{name, dims, false, func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = val
		}
	}})
}

// per is the standard deviation that keeps a product of n terms at one.
func per(n int) float64 { return 1 / math.Sqrt(float64(n)) }

// layout lists a model's tensors. Queries and keys are scaled up so that
// attention picks instead of averaging: the greedy continuation depends on the
// whole context, and a damaged row shows. Only printable tokens have an output
// row, so that a reply is text and never ends by chance.
func layout(m Model, v *vocab) []tensor {
	b := &builder{m: m}
	tied := m.Arch == "cohere2" || m.Arch == "lfm2" // the output is the embedding
	embedded := func(int) bool { return true }
	if tied {
		embedded = v.printable
	}
	b.matrix("token_embd.weight", 1, embedded, m.Width, m.Vocab)
	if m.Arch == "lfm2" {
		b.constant("token_embd_norm.weight", 1, m.Width) // its name for the last norm
	} else {
		b.constant("output_norm.weight", 1, m.Width)
	}
	if !tied {
		b.matrix("output.weight", 2*per(m.Width), v.printable, m.Width, m.Vocab)
	}
	for l := range m.Layers {
		b.block(l)
	}
	return b.tensors
}

func (b *builder) block(l int) {
	p := fmt.Sprintf("blk.%d.", l)
	b.constant(p+"attn_norm.weight", 1, b.m.Width)
	switch {
	case b.m.Arch == "mamba":
		b.recurrence(p)
		return
	case !attends(b.m, l):
		b.convolution(p)
	default:
		b.attention(p)
	}
	if b.m.Arch != "cohere2" { // it norms once for both halves
		b.constant(p+"ffn_norm.weight", 1, b.m.Width)
	}
	b.matrix(p+"ffn_gate.weight", 1.5*per(b.m.Width), nil, b.m.Width, b.m.Inner)
	b.matrix(p+"ffn_up.weight", per(b.m.Width), nil, b.m.Width, b.m.Inner)
	b.matrix(p+"ffn_down.weight", per(b.m.Inner), nil, b.m.Inner, b.m.Width)
}

// attends says whether a layer has attention; a hybrid's others are short
// convolutions.
func attends(m Model, layer int) bool {
	return m.Arch != "lfm2" || layer%attentionEvery == attentionEvery-1
}

func (b *builder) attention(p string) {
	w := b.m.Width
	head := w / b.m.Heads
	kv := head * b.m.KVHeads
	b.matrix(p+"attn_q.weight", 2*per(w), nil, w, w)
	b.matrix(p+"attn_k.weight", 2*per(w), nil, w, kv)
	b.matrix(p+"attn_v.weight", 2*per(w), nil, w, kv)
	b.matrix(p+"attn_output.weight", 2*per(w), nil, w, w)
	switch b.m.Arch {
	case "qwen2vl":
		b.constant(p+"attn_q.bias", 0, w)
		b.constant(p+"attn_k.bias", 0, kv)
		b.constant(p+"attn_v.bias", 0, kv)
	case "lfm2":
		b.constant(p+"attn_q_norm.weight", 1, head)
		b.constant(p+"attn_k_norm.weight", 1, head)
	}
}

// convolved is the length of a hybrid's short convolution, stateSize a
// recurrent model's state per channel.
const (
	convolved = 3
	stateSize = 16
)

func (b *builder) convolution(p string) {
	w := b.m.Width
	b.add(p+"shortconv.conv.weight", false, 0.6, nil, convolved, w)
	b.matrix(p+"shortconv.in_proj.weight", per(w), nil, w, 3*w)
	b.matrix(p+"shortconv.out_proj.weight", per(w), nil, w, w)
}

func (b *builder) recurrence(p string) {
	w, inner, rank := b.m.Width, 2*b.m.Width, stepRank(b.m)
	b.matrix(p+"ssm_in.weight", per(w), nil, w, 2*inner)
	b.add(p+"ssm_conv1d.weight", false, 0.5, nil, 4, inner)
	b.constant(p+"ssm_conv1d.bias", 0, inner)
	b.matrix(p+"ssm_x.weight", per(inner), nil, inner, rank+2*stateSize)
	b.matrix(p+"ssm_dt.weight", per(rank), nil, rank, inner)
	b.constant(p+"ssm_dt.bias", -3, inner)
	b.tensors = append(b.tensors, tensor{p + "ssm_a", []int{stateSize, inner}, false, func(_ int, dst []float32) {
		for i := range dst {
			dst[i] = -float32(i + 1)
		}
	}})
	b.constant(p+"ssm_d", 1, inner)
	b.matrix(p+"ssm_out.weight", per(inner), nil, inner, w)
}

func stepRank(m Model) int { return (m.Width + 15) / 16 }

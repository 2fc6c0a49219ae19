// Command icons draws every icon of the program from the shapes below:
//
//	go run . ../../assets/icon
//
// The glyph is a holdfast: a stipe with two blades above and three roots
// below. A tray icon is read at 22 pixels, so states differ in shape as well as
// in colour: idle is an outline, working is filled, degraded carries a dot in a
// notch, bypassed is crossed out. It is a module of its own, because only a
// person who changes an icon needs its rasterizer.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/srwiley/oksvg"
	"github.com/srwiley/rasterx"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: icons FOLDER")
	}
	for name, data := range files() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), data, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// palette is one set of colours: ink for lines, life for what is alive.
type palette struct{ ink, life, amber, grey string }

// bars are the colours for a light bar, a dark bar, and one whose colour cannot
// be learned, each with about 3:1 contrast against it at least.
func bars() map[string]palette {
	return map[string]palette{
		"light": {ink: "#1c2b33", life: "#0f7a70", amber: "#c25e00", grey: "#76808a"},
		"any":   {ink: "#6f7b83", life: "#14958a", amber: "#c97a10", grey: "#858f96"},
		"dark":  {ink: "#f2f6f7", life: "#3fd6c0", amber: "#ffb020", grey: "#9aa5ae"},
	}
}

// trayPixels is a bar of 22 to 24 points at twice the density.
const trayPixels = 48

func files() map[string][]byte {
	out := map[string][]byte{"holdfast.svg": []byte(app())}
	for _, px := range []int{16, 32, 48, 128, 256, 512} {
		out[fmt.Sprintf("holdfast-%d.png", px)] = encode(render(px, app()))
	}
	out["holdfast.ico"] = ico(app())
	for bar, p := range bars() {
		for state, layers := range states(p) {
			out["tray-"+state+"-"+bar+".png"] = encode(stack(trayPixels, layers))
			out["tray-"+state+"-"+bar+".ico"] = ico(layers...)
		}
	}
	for state, layers := range states(palette{"#000000", "#000000", "#000000", "#000000"}) {
		out["tray-"+state+"-template.png"] = encode(stack(trayPixels, layers)) // macOS takes the alpha alone
	}
	return out
}

// erase marks a layer that cuts its shape out of those below.
const erase = "erase:"

func states(p palette) map[string][]string {
	const dot, ring = `<circle cx="18.9" cy="18.9" r="4.4"`, `<circle cx="18.9" cy="18.9" r="6.2"`
	const slash = `<path d="M2.4 21.6 L21.6 2.4" fill="none" stroke-linecap="round"`
	return map[string][]string{
		"idle":    {svg(glyph(p.ink, p.ink, false))},
		"working": {svg(glyph(p.ink, p.life, true))},
		"degraded": {
			svg(glyph(p.ink, p.life, true)),
			erase + svg(ring+` fill="#000"/>`),
			svg(dot + ` fill="` + p.amber + `"/>`),
		},
		"bypassed": {
			svg(glyph(p.grey, p.grey, true)),
			erase + svg(slash+` stroke="#000" stroke-width="4.8"/>`),
			svg(slash + ` stroke="` + p.grey + `" stroke-width="2.3"/>`),
		},
	}
}

func svg(body string) string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">` + body + `</svg>`
}

// glyph is the holdfast on a grid of 24: stipe, blades, roots.
func glyph(ink, life string, filled bool) string {
	line := func(d string, width float64) string {
		return fmt.Sprintf(`<path d="%s" fill="none" stroke="%s" stroke-width="%v" stroke-linecap="round" stroke-linejoin="round"/>`, d, ink, width)
	}
	blade := func(d string) string {
		if filled {
			return fmt.Sprintf(`<path d="%s" fill="%s"/>`, d, life)
		}
		return fmt.Sprintf(`<path d="%s" fill="none" stroke="%s" stroke-width="1.7" stroke-linejoin="round"/>`, d, life)
	}
	return blade("M12 10 C6.6 10 2.2 7.4 1.8 1.4 C7.6 1.6 11.8 4.6 12 10 Z") +
		blade("M12 13.6 C17.4 13.6 21.8 11 22.2 5 C16.4 5.2 12.2 8.2 12 13.6 Z") +
		line("M12 8.8 L12 22.6", 2.1) +
		line("M12 14.8 C11.4 18.8 5.6 17.6 3 22.6", 2.1) +
		line("M12 14.8 C12.6 18.8 18.4 17.6 21 22.6", 2.1)
}

// app is the icon of the program: the glyph on deep water.
func app() string {
	return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 36 36">` +
		`<defs><linearGradient id="w" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="#17968a"/><stop offset="1" stop-color="#0a3f4c"/></linearGradient></defs>` +
		`<path fill="url(#w)" d="M9 1 L27 1 C32.5 1 35 3.5 35 9 L35 27 C35 32.5 32.5 35 27 35 L9 35 C3.5 35 1 32.5 1 27 L1 9 C1 3.5 3.5 1 9 1 Z"/>` +
		shift(glyph("#ffffff", "#b9f3e4", true), 6, 6) + `</svg>`
}

// shift moves every coordinate of the paths of a glyph; the rasterizer does
// not nest transforms.
func shift(body string, dx, dy float64) string {
	at := regexp.MustCompile(`(-?[0-9.]+) (-?[0-9.]+)`)
	return regexp.MustCompile(` d="[^"]*"`).ReplaceAllStringFunc(body, func(d string) string {
		return at.ReplaceAllStringFunc(d, func(pair string) string {
			var x, y float64
			if _, err := fmt.Sscan(pair, &x, &y); err != nil {
				log.Fatal(err)
			}
			return fmt.Sprintf("%.4g %.4g", x+dx, y+dy)
		})
	})
}

// stack draws the layers over each other.
func stack(px int, layers []string) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, px, px))
	for _, layer := range layers {
		text, cut := strings.CutPrefix(layer, erase)
		img := render(px, text)
		if !cut {
			draw.Draw(out, out.Bounds(), img, image.Point{}, draw.Over)
			continue
		}
		for i := 0; i < len(out.Pix); i++ { // premultiplied: every channel fades alike
			out.Pix[i] = uint8(int(out.Pix[i]) * (255 - int(img.Pix[i|3])) / 255)
		}
	}
	return out
}

func render(px int, text string) *image.RGBA {
	icon, err := oksvg.ReadIconStream(strings.NewReader(scaled(px, text)))
	if err != nil {
		log.Fatal(err)
	}
	icon.SetTarget(0, 0, float64(px), float64(px))
	img := image.NewRGBA(image.Rect(0, 0, px, px))
	icon.Draw(rasterx.NewDasher(px, px, rasterx.NewScannerGV(px, px, img, img.Bounds())), 1)
	return img
}

// scaled multiplies the widths of strokes by the scale of the drawing, which
// the rasterizer forgets to do.
func scaled(px int, text string) string {
	var side, width float64
	if _, err := fmt.Sscanf(text[strings.Index(text, "viewBox"):], `viewBox="0 0 %f`, &side); err != nil {
		log.Fatal(err)
	}
	return regexp.MustCompile(`stroke-width="[^"]*"`).ReplaceAllStringFunc(text, func(attr string) string {
		if _, err := fmt.Sscanf(attr, `stroke-width="%f`, &width); err != nil {
			log.Fatal(err)
		}
		return fmt.Sprintf(`stroke-width="%.4g"`, width*float64(px)/side)
	})
}

func encode(img image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

// ico is a Windows icon with one PNG per size, as Windows has read them since
// Vista.
func ico(layers ...string) []byte {
	sizes := []int{16, 20, 24, 32, 48}
	head, body := new(bytes.Buffer), new(bytes.Buffer)
	put := func(v ...any) {
		for _, x := range v {
			binary.Write(head, binary.LittleEndian, x) // a Buffer takes everything
		}
	}
	put(uint16(0), uint16(1), uint16(len(sizes)))
	for _, px := range sizes {
		data := encode(stack(px, layers))
		put(uint8(px), uint8(px), uint8(0), uint8(0), uint16(1), uint16(32), uint32(len(data)), uint32(6+16*len(sizes)+body.Len()))
		body.Write(data)
	}
	return append(head.Bytes(), body.Bytes()...)
}

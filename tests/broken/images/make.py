#!/usr/bin/env python3
"""Makes the broken pictures of this folder from the four good_* ones and from nothing. expected.txt says what each must
give; run this again only to add one."""
import os
import struct
import zlib

os.chdir(os.path.dirname(os.path.abspath(__file__)))
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name, data, crc=None):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data) if crc is None else crc)


def header(width, height, depth=8, kind=2):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))


def pixels(width, height, channels=3):
    return chunk(b"IDAT", zlib.compress((b"\0" + bytes(range(100, 100 + width * channels))) * height))


END = chunk(b"IEND", b"")
GOOD = [header(4, 4), pixels(4, 4), END]


def save(name, *parts):
    with open(name, "wb") as f:
        f.write(b"".join(parts))


def load(name):
    with open(name, "rb") as f:
        return f.read()


def png():
    save("png_header_crc.png", SIGNATURE, chunk(b"IHDR", GOOD[0][8:21], 1), *GOOD[1:])
    save("png_pixels_crc.png", SIGNATURE, GOOD[0], chunk(b"IDAT", GOOD[1][8:-4], 1), END)
    save("png_zero_width.png", SIGNATURE, header(0, 4), *GOOD[1:])
    save("png_zero_height.png", SIGNATURE, header(4, 0), *GOOD[1:])
    save("png_huge.png", SIGNATURE, header(0x7FFFFFFF, 0x7FFFFFFF), *GOOD[1:])
    save("png_beyond_31_bits.png", SIGNATURE, header(0xFFFFFFFF, 1), *GOOD[1:])
    save("png_claims_much.png", SIGNATURE, header(16000, 16000), *GOOD[1:])
    save("png_no_header.png", SIGNATURE, GOOD[1], END)
    save("png_long_header.png", SIGNATURE, chunk(b"IHDR", GOOD[0][8:21] + b"\0"), *GOOD[1:])
    save("png_no_pixels.png", SIGNATURE, GOOD[0], END)
    save("png_no_palette.png", SIGNATURE, header(4, 4, 8, 3), pixels(4, 4, 1), END)
    save("png_bad_depth.png", SIGNATURE, header(4, 4, 3), *GOOD[1:])
    save("png_depth_zero.png", SIGNATURE, header(4, 4, 0), *GOOD[1:])
    save("png_bad_colour_type.png", SIGNATURE, header(4, 4, 8, 5), *GOOD[1:])
    save("png_few_rows.png", SIGNATURE, GOOD[0], pixels(4, 2), END)
    save("png_bad_filter.png", SIGNATURE, GOOD[0], chunk(b"IDAT", zlib.compress((b"\x09" + bytes(12)) * 4)), END)
    save("png_bad_deflate.png", SIGNATURE, GOOD[0], chunk(b"IDAT", b"\x78\x9c" + b"\xff" * 30), END)
    save("png_signature_only.png", SIGNATURE)
    save("png_unknown_critical.png", SIGNATURE, GOOD[0], chunk(b"ABCD", b"data"), *GOOD[1:])
    save("png_apple.png", SIGNATURE, chunk(b"CgBI", b"\x50\0\x20\x02"), *GOOD)
    save("png_no_end.png", SIGNATURE, *GOOD[:2])
    save("png_chunk_length.png", SIGNATURE, GOOD[0], b"\x7f\xff\xff\xffIDAT", GOOD[1][8:], END)
    # bombs: small files that would unpack to very much; the picture itself is fine
    much = bytes(1 << 23)
    profile = struct.pack(">I", len(much)) + b"lcms\x02\x10\0\0mntrRGB XYZ " + much
    save("png_profile_bomb.png", SIGNATURE, GOOD[0], chunk(b"iCCP", b"bomb\0\0" + zlib.compress(profile, 9)), *GOOD[1:])
    save("png_text_bomb.png", SIGNATURE, GOOD[0], chunk(b"zTXt", b"bomb\0\0" + zlib.compress(much, 9)),
         chunk(b"iTXt", b"bomb\0\1\0\0\0" + zlib.compress(much, 9)), *GOOD[1:])
    save("png_pixels_bomb.png", SIGNATURE, GOOD[0], chunk(b"IDAT", zlib.compress(bytes(52) + much, 9)), END)
    save("png_bad_extras.png", SIGNATURE, GOOD[0], chunk(b"gAMA", b"\0\0\0\0"), chunk(b"cHRM", bytes(32)),
         chunk(b"eXIf", b"MM\0*\xff\xff\xff\xff"), chunk(b"iCCP", b"x\0\0garbage"), chunk(b"tEXt", b"no end"), *GOOD[1:])


def jpeg():
    good, progressive = load("good.jpg"), load("good_progressive.jpg")
    frame = good.index(b"\xff\xc0")

    def patched(offset, data, base=good):
        return base[:offset] + data + base[offset + len(data):]

    scan = good.index(b"\xff\xda")
    save("jpeg_cut.jpg", good[:-60])
    save("jpeg_no_end.jpg", good[:-2])
    save("jpeg_start_only.jpg", good[:4])
    save("jpeg_zero_height.jpg", patched(frame + 5, b"\0\0"))
    save("jpeg_zero_width.jpg", patched(frame + 7, b"\0\0"))
    save("jpeg_huge.jpg", patched(frame + 5, b"\xff\xdc\xff\xdc"))
    save("jpeg_claims_much.jpg", patched(frame + 5, struct.pack(">HH", 16000, 16000)))
    save("jpeg_12_bits.jpg", patched(frame + 4, b"\x0c"))
    save("jpeg_lossless.jpg", patched(frame + 1, b"\xc3"))
    save("jpeg_no_scan.jpg", good[:scan] + b"\xff\xd9")
    save("jpeg_no_tables.jpg", good[:2] + good[frame:])
    save("jpeg_bad_bits.jpg", patched(scan + 20, b"\xfe" * 60))
    save("jpeg_marker_inside.jpg", patched(scan + 60, b"\xff\xd9"))
    save("jpeg_segment_length.jpg", patched(frame + 2, b"\0\1"))
    last = progressive.rindex(b"\xff\xda")
    save("jpeg_many_scans.jpg", progressive[:last] + progressive[last:-2] * 300 + b"\xff\xd9")


def webp():
    good, lossless = load("good.webp"), load("good_lossless.webp")

    def extended(width, height, flags=0, body=good[12:]):
        size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
        data = b"WEBPVP8X" + struct.pack("<IB3x", 10, flags) + size + body
        return b"RIFF" + struct.pack("<I", len(data)) + data

    save("webp_cut.webp", good[:-40])
    save("webp_cut_lossless.webp", lossless[:-40])
    save("webp_header_only.webp", good[:12])
    save("webp_no_picture.webp", b"RIFF\4\0\0\0WEBP")
    save("webp_canvas_differs.webp", extended(100, 100))
    save("webp_canvas_huge.webp", extended(1 << 24, 1 << 24))
    save("webp_animated.webp", extended(24, 16, 2, b"ANIM\6\0\0\0\0\0\0\0\0\0"))
    save("webp_bad_start_code.webp", good[:23] + b"\0\0\0" + good[26:])
    save("webp_zero_width.webp", good[:26] + b"\0\0" + good[28:])
    save("webp_bad_lossless.webp", lossless[:25] + b"\xff" * 60 + lossless[85:])
    save("webp_chunk_length.webp", good[:16] + b"\xff\xff\xff\xff" + good[20:])


def others():
    save("empty.png")
    save("text.jpg", b"This is not a picture.\n")


png()
jpeg()
webp()
others()

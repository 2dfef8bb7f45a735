# Two images: figures for people; sizes that differ are an error.
makeimage a.png 64 48
makeimage b.png 64 48 2
makeimage c.png 48 64
zenith compare a.png b.png
zenith compare a.png a.png
zenith compare a.png c.png

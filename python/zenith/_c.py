"""Declarations of libzenith for ctypes. Written by python/generate.py from include/zenith; do not edit."""

from ctypes import CFUNCTYPE, POINTER, Structure
from ctypes import c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint, c_uint64, c_uint8, c_void_p
from typing import Any, Dict, List, Optional, Tuple

Bytes = bytes  # some structs have a field of that name
INTEGERS = (c_int, c_int64, c_size_t, c_uint, c_uint64, c_uint8)


class Record(Structure):
    """Refuses whole numbers that a field cannot hold, of which ctypes would keep the lower bits."""

    def __init__(self, *first: Any, **values: Any) -> None:
        values.update(zip((name for name, _ in self._fields_), first))
        for name, kind in self._fields_:
            value = values.get(name)
            if isinstance(value, int) and issubclass(kind, INTEGERS) and kind(value).value != value:
                raise ValueError(f"{name}: {value} is out of range")
        super().__init__(**values)

ZN_OK = 0
ZN_ENOMEM = -1
ZN_EIO = -2
ZN_EFORMAT = -3
ZN_EUNSUPPORTED = -4
ZN_ESHAPE = -5
ZN_EINVALID = -6
ZN_ENOTFOUND = -7
ZN_ENUMERIC = -8
ZN_ECANCELLED = -9
ZN_ELIMIT = -10
ZN_IMAGE_MAX_PIXELS = 1 << 28
ZN_IMAGE_GAP = 8
ZN_LATENT_STATISTICS = 128
ZN_ENCODER = 0
ZN_DECODER = ZN_ENCODER + 1
ZN_LATENT_NET = ZN_DECODER + 1
ZN_CLASSIFIER = ZN_LATENT_NET + 1
ZN_PRECISION_DEFAULT = 0
ZN_PRECISION_F32 = ZN_PRECISION_DEFAULT + 1
ZN_PRECISION_BF16 = ZN_PRECISION_F32 + 1
ZN_PRECISION_F16 = ZN_PRECISION_BF16 + 1
ZN_PRECISION_INT8 = ZN_PRECISION_F16 + 1
ZN_PRECISION_FP8 = ZN_PRECISION_INT8 + 1
ZN_TILE_AUTO = 0
ZN_TILE_OFF = -1
ZN_FILM_METADATA = 1
ZN_FILM_LEAN = 2
ZN_TASK_AUTO = 0
ZN_TASK_DENOISE = ZN_TASK_AUTO + 1
ZN_TASK_IMPULSE = ZN_TASK_DENOISE + 1
ZN_TASK_DEBLUR = ZN_TASK_IMPULSE + 1
ZN_TASK_JPEG = ZN_TASK_DEBLUR + 1
ZN_DAMAGE_NONE = 0
ZN_DAMAGE_GAUSSIAN = ZN_DAMAGE_NONE + 1
ZN_DAMAGE_SALT = ZN_DAMAGE_GAUSSIAN + 1
ZN_DAMAGE_RANDOM = ZN_DAMAGE_SALT + 1
ZN_DAMAGE_BLUR = ZN_DAMAGE_RANDOM + 1
ZN_DAMAGE_BOX = ZN_DAMAGE_BLUR + 1
ZN_DAMAGE_GREY = ZN_DAMAGE_BOX + 1
ZN_DAMAGE_JPEG = ZN_DAMAGE_GREY + 1
ZN_DAMAGE_JPEG444 = ZN_DAMAGE_JPEG + 1
ZN_DAMAGE_SCALE = ZN_DAMAGE_JPEG444 + 1
ZN_DAMAGE_WEBP = ZN_DAMAGE_SCALE + 1
ZN_FILTER_MEAN = 0
ZN_FILTER_MEDIAN = ZN_FILTER_MEAN + 1
ZN_FILTER_NLM = ZN_FILTER_MEDIAN + 1
ZN_SCORE_BANDS = 3
ZN_LPIPS_NETWORKS = 2
ZN_LPIPS_AUTO = 0
ZN_LPIPS_NONE = ZN_LPIPS_AUTO + 1
ZN_LPIPS_ALEX = ZN_LPIPS_NONE + 1
ZN_LPIPS_SQUEEZE = ZN_LPIPS_ALEX + 1
ZN_PLAIN_DAMAGED = 0
ZN_PLAIN_MEAN = ZN_PLAIN_DAMAGED + 1
ZN_PLAIN_MEDIAN = ZN_PLAIN_MEAN + 1
ZN_PLAIN_NLM = ZN_PLAIN_MEDIAN + 1
ZN_PLAIN_COUNT = ZN_PLAIN_NLM + 1
ZN_EVAL_GROUPS = 16
ZN_TRIP_INVERTED = 0
ZN_TRIP_RANDOM = ZN_TRIP_INVERTED + 1
ZN_TRIP_COUNT = ZN_TRIP_RANDOM + 1
ZN_STAGE_TEXT = 0
ZN_STAGE_ENCODE = ZN_STAGE_TEXT + 1
ZN_STAGE_STEPS = ZN_STAGE_ENCODE + 1
ZN_STAGE_DECODE = ZN_STAGE_STEPS + 1
ZN_BATCH_MOST = 64
ZN_F64 = 0
ZN_F32 = ZN_F64 + 1
ZN_F16 = ZN_F32 + 1
ZN_BF16 = ZN_F16 + 1
ZN_F8_E4M3 = ZN_BF16 + 1
ZN_F8_E5M2 = ZN_F8_E4M3 + 1
ZN_I64 = ZN_F8_E5M2 + 1
ZN_I32 = ZN_I64 + 1
ZN_I16 = ZN_I32 + 1
ZN_I8 = ZN_I16 + 1
ZN_U64 = ZN_I8 + 1
ZN_U32 = ZN_U64 + 1
ZN_U16 = ZN_U32 + 1
ZN_U8 = ZN_U16 + 1
ZN_BOOL = ZN_U8 + 1
ZN_Q4_0 = ZN_BOOL + 1
ZN_Q4_1 = ZN_Q4_0 + 1
ZN_Q5_0 = ZN_Q4_1 + 1
ZN_Q5_1 = ZN_Q5_0 + 1
ZN_Q8_0 = ZN_Q5_1 + 1
ZN_Q2_K = ZN_Q8_0 + 1
ZN_Q3_K = ZN_Q2_K + 1
ZN_Q4_K = ZN_Q3_K + 1
ZN_Q5_K = ZN_Q4_K + 1
ZN_Q6_K = ZN_Q5_K + 1
ZN_DTYPE_COUNT = ZN_Q6_K + 1
ZN_MAX_RANK = 8


class zn_animation(Structure):
    pass


class zn_model(Structure):
    pass


class zn_context(Structure):
    pass


class zn_codec(Structure):
    pass


class zn_film(Structure):
    pass


class zn_film_writer(Structure):
    pass


class zn_ranks(Structure):
    pass


class zn_diffae(Structure):
    pass


class zn_scorer(Structure):
    pass


class zn_generator(Structure):
    pass


class zn_video(Structure):
    pass


class zn_weights(Structure):
    pass


zn_progress_fn = CFUNCTYPE(c_int, c_void_p, c_double)
zn_skipped_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
zn_generator_folder_fn = CFUNCTYPE(None, c_void_p, c_char_p)
zn_lora_visit_fn = CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)


class zn_image(Record):
    width: int
    height: int
    bits: int
    pixels: Any
    grey: int
    _fields_ = [
        ("width", c_int),
        ("height", c_int),
        ("bits", c_int),
        ("pixels", c_void_p),
        ("grey", c_int),
    ]


zn_video_picture_fn = CFUNCTYPE(c_int, c_void_p, POINTER(zn_image))


class zn_image_read_options(Record):
    background: Any
    max_pixels: int
    ignore_alpha: int
    _fields_ = [
        ("background", c_uint8 * 3),
        ("max_pixels", c_int64),
        ("ignore_alpha", c_int),
    ]


class zn_image_metadata(Record):
    exif: Any
    exif_size: int
    xmp: Any
    xmp_size: int
    parameters: Optional[Bytes]
    dpi_x: float
    dpi_y: float
    _fields_ = [
        ("exif", POINTER(c_uint8)),
        ("exif_size", c_size_t),
        ("xmp", POINTER(c_uint8)),
        ("xmp_size", c_size_t),
        ("parameters", c_char_p),
        ("dpi_x", c_double),
        ("dpi_y", c_double),
    ]


class zn_image_write_options(Record):
    quality: int
    lossless: int
    alpha: Any
    metadata: Any
    subsampling: int
    threads: int
    _fields_ = [
        ("quality", c_int),
        ("lossless", c_int),
        ("alpha", POINTER(zn_image)),
        ("metadata", POINTER(zn_image_metadata)),
        ("subsampling", c_int),
        ("threads", c_int),
    ]


class zn_image_kind(Record):
    format: Optional[Bytes]
    frames: int
    bits: int
    _fields_ = [
        ("format", c_char_p),
        ("frames", c_int),
        ("bits", c_int),
    ]


class zn_image_difference(Record):
    psnr: float
    ssim: float
    max_difference: int
    _fields_ = [
        ("psnr", c_double),
        ("ssim", c_double),
        ("max_difference", c_int),
    ]


class zn_latent(Record):
    width: int
    height: int
    channels: int
    image_width: int
    image_height: int
    downscale: int
    model: Bytes
    data: Any
    frames: int
    image_frames: int
    grey: int
    raw: int
    _fields_ = [
        ("width", c_int),
        ("height", c_int),
        ("channels", c_int),
        ("image_width", c_int),
        ("image_height", c_int),
        ("downscale", c_int),
        ("model", c_char * 64),
        ("data", POINTER(c_float)),
        ("frames", c_int),
        ("image_frames", c_int),
        ("grey", c_int),
        ("raw", c_int),
    ]


class zn_latent_statistics(Record):
    mean: Any
    deviation: Any
    _fields_ = [
        ("mean", c_float * ZN_LATENT_STATISTICS),
        ("deviation", c_float * ZN_LATENT_STATISTICS),
    ]


class zn_model_info(Record):
    architecture: Optional[Bytes]
    description: Optional[Bytes]
    path: Optional[Bytes]
    latent_channels: int
    downscale: int
    clip_frames: int
    has_encoder: int
    has_decoder: int
    restores: int
    upscales: int
    judges: int
    diffuses: int
    image_size: int
    has_latent_net: int
    has_classifier: int
    is_random: int
    parameters: int
    _fields_ = [
        ("architecture", c_char_p),
        ("description", c_char_p),
        ("path", c_char_p),
        ("latent_channels", c_int),
        ("downscale", c_int),
        ("clip_frames", c_int),
        ("has_encoder", c_int),
        ("has_decoder", c_int),
        ("restores", c_int),
        ("upscales", c_int),
        ("judges", c_int),
        ("diffuses", c_int),
        ("image_size", c_int),
        ("has_latent_net", c_int),
        ("has_classifier", c_int),
        ("is_random", c_int),
        ("parameters", c_int64),
    ]


zn_model_visit_fn = CFUNCTYPE(None, c_void_p, c_char_p, POINTER(zn_model_info), c_char_p)


class zn_cost(Record):
    gflop: float
    activations: int
    weights: int
    _fields_ = [
        ("gflop", c_double),
        ("activations", c_int64),
        ("weights", c_int64),
    ]


class zn_options(Record):
    size: int
    context: Any
    threads: int
    precision: int
    device: Optional[Bytes]
    memory: int
    tile: int
    profile: int
    progress: Any
    user: Any
    blend: int
    _fields_ = [
        ("size", c_size_t),
        ("context", POINTER(zn_context)),
        ("threads", c_int),
        ("precision", c_int),
        ("device", c_char_p),
        ("memory", c_size_t),
        ("tile", c_int),
        ("profile", c_int),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
        ("blend", c_int),
    ]


class zn_profile_row(Record):
    name: Optional[Bytes]
    kernel: Optional[Bytes]
    ms: float
    gflop: float
    gflop_done: float
    gslot: float
    mbytes: float
    roofline: float
    _fields_ = [
        ("name", c_char_p),
        ("kernel", c_char_p),
        ("ms", c_double),
        ("gflop", c_double),
        ("gflop_done", c_double),
        ("gslot", c_double),
        ("mbytes", c_double),
        ("roofline", c_double),
    ]


class zn_machine(Record):
    isa: Bytes
    cpus: int
    peak_gflops: float
    bandwidth_gbs: float
    _fields_ = [
        ("isa", c_char * 64),
        ("cpus", c_int),
        ("peak_gflops", c_double),
        ("bandwidth_gbs", c_double),
    ]


class zn_bench_options(Record):
    part: int
    width: int
    height: int
    runs: int
    seed: int
    compute: Any
    _fields_ = [
        ("part", c_int),
        ("width", c_int),
        ("height", c_int),
        ("runs", c_int),
        ("seed", c_uint64),
        ("compute", POINTER(zn_options)),
    ]


class zn_bench_result(Record):
    ms_median: float
    ms_min: float
    cpu_ms: float
    runs: int
    threads: int
    gflop: float
    gflops: float
    precision: int
    precision_share: float
    machine: zn_machine
    rss_mb: float
    rows: Any
    row_count: int
    plan: Bytes
    _fields_ = [
        ("ms_median", c_double),
        ("ms_min", c_double),
        ("cpu_ms", c_double),
        ("runs", c_int),
        ("threads", c_int),
        ("gflop", c_double),
        ("gflops", c_double),
        ("precision", c_int),
        ("precision_share", c_double),
        ("machine", zn_machine),
        ("rss_mb", c_double),
        ("rows", POINTER(zn_profile_row)),
        ("row_count", c_int),
        ("plan", c_char * 4096),
    ]


class zn_film_info(Record):
    codec: Bytes
    width: int
    height: int
    frames: int
    rate: float
    bits: int
    rotation: int
    audio: int
    _fields_ = [
        ("codec", c_char * 32),
        ("width", c_int),
        ("height", c_int),
        ("frames", c_int64),
        ("rate", c_double),
        ("bits", c_int),
        ("rotation", c_int),
        ("audio", c_int),
    ]


class zn_film_faults(Record):
    lost: int
    damaged: int
    interlaced: int
    missing: float
    _fields_ = [
        ("lost", c_int64),
        ("damaged", c_int64),
        ("interlaced", c_int64),
        ("missing", c_double),
    ]


zn_film_faults_fn = CFUNCTYPE(None, c_void_p, c_char_p, POINTER(zn_film_faults))


class zn_dataset_build_options(Record):
    inputs: Any
    input_count: int
    output: Optional[Bytes]
    size: int
    crops: int
    format: Optional[Bytes]
    write: zn_image_write_options
    clips: int
    rate: float
    seed: int
    threads: int
    ranks: Any
    skipped: Any
    faults: Any
    progress: Any
    user: Any
    _fields_ = [
        ("inputs", POINTER(c_char_p)),
        ("input_count", c_int),
        ("output", c_char_p),
        ("size", c_int),
        ("crops", c_int),
        ("format", c_char_p),
        ("write", zn_image_write_options),
        ("clips", c_int),
        ("rate", c_double),
        ("seed", c_uint64),
        ("threads", c_int),
        ("ranks", POINTER(zn_ranks)),
        ("skipped", zn_skipped_fn),
        ("faults", zn_film_faults_fn),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_dataset_build_result(Record):
    photos: int
    skipped: int
    pictures: int
    bytes: int
    seconds: float
    unrelated: int
    _fields_ = [
        ("photos", c_int64),
        ("skipped", c_int64),
        ("pictures", c_int64),
        ("bytes", c_int64),
        ("seconds", c_double),
        ("unrelated", c_int64),
    ]


class zn_dataset_info_options(Record):
    held_out: int
    threads: int
    skipped: Any
    progress: Any
    user: Any
    _fields_ = [
        ("held_out", c_int),
        ("threads", c_int),
        ("skipped", zn_skipped_fn),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_dataset_info(Record):
    kind: Optional[Bytes]
    pictures: int
    unreadable: int
    bytes: int
    pixels: int
    least_width: int
    least_height: int
    most_width: int
    most_height: int
    held_out: int
    for_training: int
    held_out_percent: int
    least_frames: int
    most_frames: int
    _fields_ = [
        ("kind", c_char_p),
        ("pictures", c_int64),
        ("unreadable", c_int64),
        ("bytes", c_int64),
        ("pixels", c_int64),
        ("least_width", c_int),
        ("least_height", c_int),
        ("most_width", c_int),
        ("most_height", c_int),
        ("held_out", c_int64),
        ("for_training", c_int64),
        ("held_out_percent", c_int),
        ("least_frames", c_int),
        ("most_frames", c_int),
    ]


class zn_dataset_sheet_options(Record):
    count: int
    side: int
    seed: int
    skipped: Any
    user: Any
    _fields_ = [
        ("count", c_int),
        ("side", c_int),
        ("seed", c_uint64),
        ("skipped", zn_skipped_fn),
        ("user", c_void_p),
    ]


class zn_diffae_sampling(Record):
    steps: int
    ddpm: int
    eta: float
    seed: int
    _fields_ = [
        ("steps", c_int),
        ("ddpm", c_int),
        ("eta", c_double),
        ("seed", c_uint64),
    ]


class zn_diffae_edit(Record):
    attribute: Optional[Bytes]
    imagine: int
    seed: int
    goal: Any
    _fields_ = [
        ("attribute", c_char_p),
        ("imagine", c_int),
        ("seed", c_uint64),
        ("goal", POINTER(c_float) * 2),
    ]


class zn_corruption(Record):
    damage: int
    amount: float
    then: int
    then_amount: float
    _fields_ = [
        ("damage", c_int),
        ("amount", c_double),
        ("then", c_int),
        ("then_amount", c_double),
    ]


class zn_scores(Record):
    psnr: float
    ssim: float
    ms_ssim: float
    lpips_alex: float
    lpips_squeeze: float
    luma_kept: Any
    chroma_kept: Any
    flicker: float
    psnr_infinite: int
    _fields_ = [
        ("psnr", c_double),
        ("ssim", c_double),
        ("ms_ssim", c_double),
        ("lpips_alex", c_double),
        ("lpips_squeeze", c_double),
        ("luma_kept", c_double * ZN_SCORE_BANDS),
        ("chroma_kept", c_double * ZN_SCORE_BANDS),
        ("flicker", c_double),
        ("psnr_infinite", c_int64),
    ]


class zn_eval_row(Record):
    name: Optional[Bytes]
    damage: Bytes
    width: int
    height: int
    ms: float
    model: zn_scores
    plain: Any
    _fields_ = [
        ("name", c_char_p),
        ("damage", c_char * 32),
        ("width", c_int),
        ("height", c_int),
        ("ms", c_double),
        ("model", zn_scores),
        ("plain", zn_scores * ZN_PLAIN_COUNT),
    ]


class zn_eval_group(Record):
    damage: Bytes
    pictures: int
    ms: float
    model: zn_scores
    plain: Any
    fid: float
    _fields_ = [
        ("damage", c_char * 32),
        ("pictures", c_int64),
        ("ms", c_double),
        ("model", zn_scores),
        ("plain", zn_scores * ZN_PLAIN_COUNT),
        ("fid", c_double),
    ]


class zn_eval_options(Record):
    data: Optional[Bytes]
    compute: Any
    task: int
    damage: zn_corruption
    seed: int
    held_out: int
    nlm: int
    lpips: int
    clips: int
    fid: int
    skipped: Any
    ranks: Any
    progress: Any
    user: Any
    _fields_ = [
        ("data", c_char_p),
        ("compute", POINTER(zn_options)),
        ("task", c_int),
        ("damage", zn_corruption),
        ("seed", c_uint64),
        ("held_out", c_int),
        ("nlm", c_int),
        ("lpips", c_int),
        ("clips", c_int),
        ("fid", c_int),
        ("skipped", zn_skipped_fn),
        ("ranks", POINTER(zn_ranks)),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_eval_result(Record):
    architecture: Bytes
    data: Bytes
    varied: Bytes
    rows: Any
    row_count: int
    groups: Any
    group_count: int
    failed: int
    seconds: float
    _fields_ = [
        ("architecture", c_char * 64),
        ("data", c_char * 256),
        ("varied", c_char * 16),
        ("rows", POINTER(zn_eval_row)),
        ("row_count", c_int64),
        ("groups", zn_eval_group * ZN_EVAL_GROUPS),
        ("group_count", c_int),
        ("failed", c_int64),
        ("seconds", c_double),
    ]


class zn_fid_options(Record):
    data: Any
    compute: Any
    skipped: Any
    progress: Any
    user: Any
    _fields_ = [
        ("data", c_char_p * 2),
        ("compute", POINTER(zn_options)),
        ("skipped", zn_skipped_fn),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_fid_result(Record):
    fid: float
    images: Any
    _fields_ = [
        ("fid", c_double),
        ("images", c_int64 * 2),
    ]


class zn_gate_row(Record):
    layer: Bytes
    ms: float
    share: float
    pruned: float
    _fields_ = [
        ("layer", c_char * 96),
        ("ms", c_double),
        ("share", c_double),
        ("pruned", c_double),
    ]


class zn_gate_result(Record):
    rows: Any
    row_count: int
    pictures: int
    failed: int
    ms: float
    _fields_ = [
        ("rows", POINTER(zn_gate_row)),
        ("row_count", c_int),
        ("pictures", c_int64),
        ("failed", c_int64),
        ("ms", c_double),
    ]


class zn_nearest_options(Record):
    data: Optional[Bytes]
    compute: Any
    skipped: Any
    progress: Any
    user: Any
    _fields_ = [
        ("data", c_char_p),
        ("compute", POINTER(zn_options)),
        ("skipped", zn_skipped_fn),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_neighbour(Record):
    name: Bytes
    distance: float
    _fields_ = [
        ("name", c_char * 256),
        ("distance", c_double),
    ]


class zn_diffae_eval_options(Record):
    data: Optional[Bytes]
    compute: Any
    held_out: int
    most: int
    steps: int
    encode_steps: int
    labels: Optional[Bytes]
    attribute: Optional[Bytes]
    edits: int
    amount: float
    samples: int
    latent_steps: int
    seed: int
    lpips: int
    skipped: Any
    progress: Any
    user: Any
    _fields_ = [
        ("data", c_char_p),
        ("compute", POINTER(zn_options)),
        ("held_out", c_int),
        ("most", c_int),
        ("steps", c_int),
        ("encode_steps", c_int),
        ("labels", c_char_p),
        ("attribute", c_char_p),
        ("edits", c_int),
        ("amount", c_double),
        ("samples", c_int),
        ("latent_steps", c_int),
        ("seed", c_uint64),
        ("lpips", c_int),
        ("skipped", zn_skipped_fn),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_diffae_eval_attribute(Record):
    name: Bytes
    with_: int
    without: int
    auroc: float
    low: float
    high: float
    edited: int
    before: float
    after: float
    likeness: float
    recognised: float
    _fields_ = [
        ("name", c_char * 64),
        ("with_", c_int64),
        ("without", c_int64),
        ("auroc", c_double),
        ("low", c_double),
        ("high", c_double),
        ("edited", c_int64),
        ("before", c_double),
        ("after", c_double),
        ("likeness", c_double),
        ("recognised", c_double),
    ]


class zn_diffae_eval_result(Record):
    trips: zn_eval_result
    attributes: Any
    attribute_count: int
    edited: int
    edit_fid: float
    sample_count: int
    sample_fid: float
    nearest: Any
    held_distance: float
    _fields_ = [
        ("trips", zn_eval_result),
        ("attributes", POINTER(zn_diffae_eval_attribute)),
        ("attribute_count", c_int),
        ("edited", c_int64),
        ("edit_fid", c_double),
        ("sample_count", c_int),
        ("sample_fid", c_double),
        ("nearest", POINTER(zn_neighbour)),
        ("held_distance", c_double),
    ]


class zn_generator_files(Record):
    size: int
    model: Optional[Bytes]
    transformer: Optional[Bytes]
    text_encoder: Optional[Bytes]
    vae: Optional[Bytes]
    tokenizer: Optional[Bytes]
    preview: Optional[Bytes]
    cache: Optional[Bytes]
    _fields_ = [
        ("size", c_size_t),
        ("model", c_char_p),
        ("transformer", c_char_p),
        ("text_encoder", c_char_p),
        ("vae", c_char_p),
        ("tokenizer", c_char_p),
        ("preview", c_char_p),
        ("cache", c_char_p),
    ]


class zn_generator_part_info(Record):
    size: int
    name: Optional[Bytes]
    path: Optional[Bytes]
    format: Optional[Bytes]
    dtype: Optional[Bytes]
    bytes: float
    files: int
    optional: int
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("path", c_char_p),
        ("format", c_char_p),
        ("dtype", c_char_p),
        ("bytes", c_double),
        ("files", c_int),
        ("optional", c_int),
    ]


zn_generator_part_fn = CFUNCTYPE(None, c_void_p, POINTER(zn_generator_part_info))


class zn_generator_about(Record):
    size: int
    width: int
    height: int
    description: Bytes
    examples: Bytes
    subjects: Bytes
    _fields_ = [
        ("size", c_size_t),
        ("width", c_int),
        ("height", c_int),
        ("description", c_char * 512),
        ("examples", c_char * 1024),
        ("subjects", c_char * 512),
    ]


class zn_generation_progress(Record):
    size: int
    stage: int
    fraction: float
    step: int
    steps: int
    preview: Any
    _fields_ = [
        ("size", c_size_t),
        ("stage", c_int),
        ("fraction", c_double),
        ("step", c_int),
        ("steps", c_int),
        ("preview", POINTER(zn_image)),
    ]


zn_generation_fn = CFUNCTYPE(c_int, c_void_p, POINTER(zn_generation_progress))


class zn_generation(Record):
    size: int
    prompt: Optional[Bytes]
    negative: Optional[Bytes]
    width: int
    height: int
    steps: int
    seed: int
    guidance: float
    shift: float
    image: Any
    strength: float
    mask: Any
    preview: int
    progress: Any
    user: Any
    encoder_tile: int
    decoder_tile: int
    _fields_ = [
        ("size", c_size_t),
        ("prompt", c_char_p),
        ("negative", c_char_p),
        ("width", c_int),
        ("height", c_int),
        ("steps", c_int),
        ("seed", c_uint64),
        ("guidance", c_double),
        ("shift", c_double),
        ("image", POINTER(zn_image)),
        ("strength", c_double),
        ("mask", POINTER(zn_image)),
        ("preview", c_int),
        ("progress", zn_generation_fn),
        ("user", c_void_p),
        ("encoder_tile", c_int),
        ("decoder_tile", c_int),
    ]


class zn_generation_defaults(Record):
    size: int
    width: int
    height: int
    steps: int
    guidance: float
    shift: float
    own_size: int
    _fields_ = [
        ("size", c_size_t),
        ("width", c_int),
        ("height", c_int),
        ("steps", c_int),
        ("guidance", c_double),
        ("shift", c_double),
        ("own_size", c_int),
    ]


class zn_calibration(Record):
    size: int
    file: Optional[Bytes]
    keep: float
    visit: Any
    user: Any
    _fields_ = [
        ("size", c_size_t),
        ("file", c_char_p),
        ("keep", c_double),
        ("visit", CFUNCTYPE(None, c_void_p, c_char_p, c_double, c_int)),
        ("user", c_void_p),
    ]


class zn_generation_report(Record):
    size: int
    tokens: int
    tokens_cut: int
    text_cached: int
    text_s: float
    encode_s: float
    steps_s: float
    decode_s: float
    peak_bytes: float
    decoder_tiles: int
    encoder_tiles: int
    encoder_tile: int
    decoder_tile: int
    sent_bytes: float
    together: int
    _fields_ = [
        ("size", c_size_t),
        ("tokens", c_int),
        ("tokens_cut", c_int),
        ("text_cached", c_int),
        ("text_s", c_double),
        ("encode_s", c_double),
        ("steps_s", c_double),
        ("decode_s", c_double),
        ("peak_bytes", c_double),
        ("decoder_tiles", c_int),
        ("encoder_tiles", c_int),
        ("encoder_tile", c_int),
        ("decoder_tile", c_int),
        ("sent_bytes", c_double),
        ("together", c_int),
    ]


class zn_published_file(Record):
    url: Optional[Bytes]
    path: Optional[Bytes]
    bytes: int
    exact: int
    check: Optional[Bytes]
    _fields_ = [
        ("url", c_char_p),
        ("path", c_char_p),
        ("bytes", c_int64),
        ("exact", c_int),
        ("check", c_char_p),
    ]


class zn_published(Record):
    name: Optional[Bytes]
    description: Optional[Bytes]
    licence: Optional[Bytes]
    used_by: Optional[Bytes]
    files: Any
    file_count: int
    _fields_ = [
        ("name", c_char_p),
        ("description", c_char_p),
        ("licence", c_char_p),
        ("used_by", c_char_p),
        ("files", POINTER(zn_published_file)),
        ("file_count", c_int),
    ]


class zn_download_options(Record):
    size: int
    url: Optional[Bytes]
    path: Optional[Bytes]
    check: Optional[Bytes]
    token: Optional[Bytes]
    replace: int
    progress: Any
    user: Any
    _fields_ = [
        ("size", c_size_t),
        ("url", c_char_p),
        ("path", c_char_p),
        ("check", c_char_p),
        ("token", c_char_p),
        ("replace", c_int),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


class zn_download_result(Record):
    bytes: int
    resumed: int
    existed: int
    checked: int
    _fields_ = [
        ("bytes", c_int64),
        ("resumed", c_int64),
        ("existed", c_int),
        ("checked", c_int),
    ]


class zn_sample_options(Record):
    seed: int
    steps: int
    compute: Any
    _fields_ = [
        ("seed", c_uint64),
        ("steps", c_int),
        ("compute", POINTER(zn_options)),
    ]


class zn_train_progress(Record):
    step: int
    steps: int
    stage: Optional[Bytes]
    stage_number: int
    stage_count: int
    loss: float
    lr: float
    images_per_second: float
    seconds_left: float
    waited: float
    eval_psnr: float
    eval_pruned: float
    encoded: int
    to_encode: int
    _fields_ = [
        ("step", c_int64),
        ("steps", c_int64),
        ("stage", c_char_p),
        ("stage_number", c_int),
        ("stage_count", c_int),
        ("loss", c_double),
        ("lr", c_double),
        ("images_per_second", c_double),
        ("seconds_left", c_double),
        ("waited", c_double),
        ("eval_psnr", c_double),
        ("eval_pruned", c_double),
        ("encoded", c_int64),
        ("to_encode", c_int64),
    ]


class zn_run_options(Record):
    data: Optional[Bytes]
    folder: Optional[Bytes]
    from_: Optional[Bytes]
    resume: int
    seed: Any
    steps: int
    settings: Any
    compute: Any
    ranks: Any
    progress: Any
    stop: Any
    skipped: Any
    remark: Any
    user: Any
    _fields_ = [
        ("data", c_char_p),
        ("folder", c_char_p),
        ("from_", c_char_p),
        ("resume", c_int),
        ("seed", POINTER(c_int64)),
        ("steps", c_int64),
        ("settings", POINTER(c_char_p)),
        ("compute", POINTER(zn_options)),
        ("ranks", POINTER(zn_ranks)),
        ("progress", CFUNCTYPE(c_int, c_void_p, POINTER(zn_train_progress))),
        ("stop", CFUNCTYPE(c_int, c_void_p)),
        ("skipped", zn_skipped_fn),
        ("remark", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("user", c_void_p),
    ]


class zn_train_options(Record):
    recipe: Optional[Bytes]
    labels: Optional[Bytes]
    run: zn_run_options
    captions: Optional[Bytes]
    _fields_ = [
        ("recipe", c_char_p),
        ("labels", c_char_p),
        ("run", zn_run_options),
        ("captions", c_char_p),
    ]


class zn_train_result(Record):
    first: int
    steps: int
    skipped: int
    loss: float
    eval_psnr: float
    eval_pruned: float
    eval_loss: float
    eval_accuracy: float
    eval_auroc: float
    bf16: float
    seconds: float
    waited: float
    precision: int
    _fields_ = [
        ("first", c_int64),
        ("steps", c_int64),
        ("skipped", c_int64),
        ("loss", c_double),
        ("eval_psnr", c_double),
        ("eval_pruned", c_double),
        ("eval_loss", c_double),
        ("eval_accuracy", c_double),
        ("eval_auroc", c_double),
        ("bf16", c_double),
        ("seconds", c_double),
        ("waited", c_double),
        ("precision", c_int),
    ]


class zn_distill_options(Record):
    teacher: Optional[Bytes]
    student: Optional[Bytes]
    run: zn_run_options
    clips: int
    _fields_ = [
        ("teacher", c_char_p),
        ("student", c_char_p),
        ("run", zn_run_options),
        ("clips", c_int),
    ]


class zn_distill_result(Record):
    first: int
    steps: int
    skipped: int
    loss: float
    seconds: float
    latent_error: float
    decoder_psnr: float
    psnr: float
    teacher_psnr: float
    _fields_ = [
        ("first", c_int64),
        ("steps", c_int64),
        ("skipped", c_int64),
        ("loss", c_double),
        ("seconds", c_double),
        ("latent_error", c_double),
        ("decoder_psnr", c_double),
        ("psnr", c_double),
        ("teacher_psnr", c_double),
    ]


class zn_weight(Record):
    name: Optional[Bytes]
    dtype: int
    rank: int
    shape: Any
    data: Any
    bytes: int
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("rank", c_int),
        ("shape", c_int64 * ZN_MAX_RANK),
        ("data", c_void_p),
        ("bytes", c_size_t),
    ]


class zn_quantisation(Record):
    size: int
    dtype: int
    mlx_bits: int
    threads: int
    progress: Any
    user: Any
    _fields_ = [
        ("size", c_size_t),
        ("dtype", c_int),
        ("mlx_bits", c_int),
        ("threads", c_int),
        ("progress", zn_progress_fn),
        ("user", c_void_p),
    ]


# name: (result, arguments)
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "zn_error_text": (c_char_p, []),
    "zn_image_new": (c_int, [c_int, c_int, c_int, POINTER(POINTER(zn_image))]),
    "zn_image_free": (None, [POINTER(zn_image)]),
    "zn_image_make_grey": (None, [POINTER(zn_image)]),
    "zn_image_fit": (c_int, [POINTER(zn_image), c_int, c_int, POINTER(POINTER(zn_image))]),
    "zn_image_blend": (c_int, [POINTER(zn_image), POINTER(zn_image), c_double]),
    "zn_image_enlarge": (c_int, [POINTER(zn_image), POINTER(POINTER(zn_image))]),
    "zn_image_read": (c_int, [c_char_p, POINTER(zn_image_read_options), POINTER(POINTER(zn_image))]),
    "zn_image_read_memory": (c_int, [c_void_p, c_size_t, POINTER(zn_image_read_options), POINTER(POINTER(zn_image))]),
    "zn_image_probe": (c_int, [c_char_p, POINTER(zn_image_kind)]),
    "zn_image_read_alpha": (c_int, [c_char_p, POINTER(zn_image_read_options), POINTER(POINTER(zn_image))]),
    "zn_animation_open": (c_int, [c_char_p, POINTER(zn_image_read_options), POINTER(POINTER(zn_animation))]),
    "zn_animation_next": (c_int, [POINTER(zn_animation), POINTER(POINTER(zn_image))]),
    "zn_animation_close": (None, [POINTER(zn_animation)]),
    "zn_image_read_metadata": (c_int, [c_char_p, POINTER(zn_image_metadata)]),
    "zn_image_metadata_free": (None, [POINTER(zn_image_metadata)]),
    "zn_image_write": (c_int, [c_char_p, POINTER(zn_image), POINTER(zn_image_write_options)]),
    "zn_image_write_as": (c_int, [c_char_p, c_char_p, POINTER(zn_image), POINTER(zn_image_write_options)]),
    "zn_image_write_memory": (c_int, [c_char_p, POINTER(zn_image), POINTER(zn_image_write_options), POINTER(c_void_p), POINTER(c_size_t)]),
    "zn_memory_free": (None, [c_void_p]),
    "zn_image_check": (c_int, [c_char_p, c_int64, c_int64, c_int]),
    "zn_image_can_write": (c_int, [c_char_p]),
    "zn_image_compare": (c_int, [POINTER(zn_image), POINTER(zn_image), POINTER(zn_image_difference)]),
    "zn_image_side_by_side": (c_int, [POINTER(zn_image), POINTER(zn_image), POINTER(POINTER(zn_image))]),
    "zn_latent_new": (c_int, [c_int, c_int, c_int, POINTER(POINTER(zn_latent))]),
    "zn_latent_free": (None, [POINTER(zn_latent)]),
    "zn_latent_append": (c_int, [POINTER(POINTER(zn_latent)), POINTER(zn_latent)]),
    "zn_latent_read": (c_int, [c_char_p, POINTER(POINTER(zn_latent))]),
    "zn_latent_read_at": (c_int, [c_char_p, c_int64, POINTER(POINTER(zn_latent)), POINTER(c_int64)]),
    "zn_latent_write": (c_int, [c_char_p, POINTER(zn_latent)]),
    "zn_latent_write_batch": (c_int, [c_char_p, POINTER(POINTER(zn_latent)), c_int64]),
    "zn_latent_write_as": (c_int, [c_char_p, c_char_p, POINTER(POINTER(zn_latent)), c_int64]),
    "zn_latent_rescale": (c_int, [POINTER(zn_latent), c_char_p, c_int]),
    "zn_latent_family_at": (c_char_p, [c_int, POINTER(c_double), POINTER(c_double)]),
    "zn_latent_pack": (c_int, [POINTER(zn_latent), c_int]),
    "zn_latent_statistics_read": (c_int, [c_char_p, POINTER(zn_latent_statistics)]),
    "zn_latent_normalise": (c_int, [POINTER(zn_latent), POINTER(zn_latent_statistics), c_int]),
    "zn_model_open": (c_int, [c_char_p, POINTER(POINTER(zn_model))]),
    "zn_model_extend": (c_int, [POINTER(zn_model), c_char_p]),
    "zn_model_release": (c_int, [POINTER(zn_model)]),
    "zn_model_find": (c_int, [c_char_p, POINTER(POINTER(zn_model))]),
    "zn_model_find_released": (c_int, [c_char_p, POINTER(POINTER(zn_model))]),
    "zn_model_random": (c_int, [c_char_p, c_uint64, POINTER(POINTER(zn_model))]),
    "zn_model_free": (None, [POINTER(zn_model)]),
    "zn_model_info_of": (POINTER(zn_model_info), [POINTER(zn_model)]),
    "zn_model_family": (c_char_p, [POINTER(zn_model_info)]),
    "zn_architecture_count": (c_int, []),
    "zn_architecture_at": (c_char_p, [c_int, POINTER(c_char_p)]),
    "zn_models_visit": (c_int, [zn_model_visit_fn, c_void_p]),
    "zn_model_cost": (c_int, [POINTER(zn_model), c_int, c_int, c_int, POINTER(zn_cost)]),
    "zn_context_new": (c_int, [c_int, POINTER(POINTER(zn_context))]),
    "zn_context_free": (None, [POINTER(zn_context)]),
    "zn_context_threads": (c_int, [POINTER(zn_context)]),
    "zn_context_packed_bytes": (c_size_t, [POINTER(zn_context)]),
    "zn_context_overhead": (c_size_t, [POINTER(zn_context), c_char_p]),
    "zn_precision_name": (c_char_p, [c_int]),
    "zn_codec_new": (c_int, [POINTER(zn_model), POINTER(zn_options), POINTER(POINTER(zn_codec))]),
    "zn_codec_free": (None, [POINTER(zn_codec)]),
    "zn_codec_hold": (None, [POINTER(zn_codec), c_size_t]),
    "zn_encode": (c_int, [POINTER(zn_codec), POINTER(zn_image), POINTER(POINTER(zn_latent))]),
    "zn_decode": (c_int, [POINTER(zn_codec), POINTER(zn_latent), POINTER(POINTER(zn_image))]),
    "zn_decode_bits": (c_int, [POINTER(zn_codec), POINTER(zn_latent), c_int, POINTER(POINTER(zn_image))]),
    "zn_codec_unpacks": (c_int, [POINTER(zn_model_info), POINTER(zn_latent)]),
    "zn_codec_plan": (c_char_p, [POINTER(zn_codec)]),
    "zn_codec_overhead": (c_double, [POINTER(zn_codec)]),
    "zn_codec_precision_share": (c_double, [POINTER(zn_codec)]),
    "zn_codec_profile": (c_int, [POINTER(zn_codec), POINTER(POINTER(zn_profile_row))]),
    "zn_machine_measure": (c_int, [c_int, c_int, POINTER(zn_machine)]),
    "zn_bench": (c_int, [POINTER(zn_model), POINTER(zn_bench_options), POINTER(zn_bench_result)]),
    "zn_bench_result_clear": (None, [POINTER(zn_bench_result)]),
    "zn_film_check": (c_int, [c_char_p]),
    "zn_film_describe": (c_int, [c_char_p, POINTER(zn_film_info)]),
    "zn_film_open": (c_int, [c_char_p, POINTER(POINTER(zn_film))]),
    "zn_film_keep_bits": (None, [POINTER(zn_film)]),
    "zn_film_next": (c_int, [POINTER(zn_film), POINTER(POINTER(zn_image))]),
    "zn_film_intervals": (None, [POINTER(zn_film), POINTER(c_double), POINTER(c_double)]),
    "zn_film_find_faults": (None, [POINTER(zn_film), POINTER(zn_film_faults)]),
    "zn_film_close": (None, [POINTER(zn_film)]),
    "zn_film_create": (c_int, [c_char_p, c_int, c_int, c_double, c_uint, POINTER(POINTER(zn_film_writer))]),
    "zn_film_create_from": (c_int, [c_char_p, POINTER(zn_film), c_int, c_int, c_uint, POINTER(POINTER(zn_film_writer))]),
    "zn_film_bytes": (c_size_t, [POINTER(zn_film), c_int, c_int, c_int]),
    "zn_film_left_out": (c_char_p, [POINTER(zn_film_writer)]),
    "zn_film_write": (c_int, [POINTER(zn_film_writer), POINTER(zn_image)]),
    "zn_film_finish": (c_int, [POINTER(zn_film_writer)]),
    "zn_film_drop": (None, [POINTER(zn_film_writer)]),
    "zn_ranks_open": (c_int, [POINTER(POINTER(zn_ranks))]),
    "zn_ranks_close": (None, [POINTER(zn_ranks)]),
    "zn_ranks_rank": (c_int, [POINTER(zn_ranks)]),
    "zn_ranks_count": (c_int, [POINTER(zn_ranks)]),
    "zn_ranks_agree": (c_int, [POINTER(zn_ranks), c_int]),
    "zn_ranks_threads": (c_int, [POINTER(zn_ranks)]),
    "zn_ranks_gather": (c_int, [POINTER(zn_ranks), c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t)]),
    "zn_dataset_build": (c_int, [POINTER(zn_dataset_build_options), POINTER(zn_dataset_build_result)]),
    "zn_dataset_examine": (c_int, [c_char_p, POINTER(zn_dataset_info_options), POINTER(zn_dataset_info)]),
    "zn_dataset_sheet": (c_int, [c_char_p, POINTER(zn_dataset_sheet_options), POINTER(POINTER(zn_image))]),
    "zn_diffae_new": (c_int, [POINTER(zn_model), POINTER(zn_options), POINTER(POINTER(zn_diffae))]),
    "zn_diffae_free": (None, [POINTER(zn_diffae)]),
    "zn_diffae_width": (c_int, [POINTER(zn_diffae)]),
    "zn_diffae_noise_size": (c_size_t, [POINTER(zn_diffae), c_int]),
    "zn_diffae_precision_share": (c_double, [POINTER(zn_diffae)]),
    "zn_diffae_fit": (c_int, [POINTER(zn_diffae), POINTER(zn_image), POINTER(POINTER(zn_image))]),
    "zn_diffae_encode": (c_int, [POINTER(zn_diffae), POINTER(zn_image), POINTER(c_float)]),
    "zn_diffae_invert": (c_int, [POINTER(zn_diffae), POINTER(zn_image), POINTER(c_float), c_int, POINTER(c_float)]),
    "zn_diffae_render": (c_int, [POINTER(zn_diffae), c_int, POINTER(c_float), POINTER(c_float), c_int, POINTER(POINTER(zn_image))]),
    "zn_diffae_check_steps": (c_int, [c_int]),
    "zn_diffae_render_by": (c_int, [POINTER(zn_diffae), POINTER(zn_diffae_sampling), c_int, POINTER(c_float), POINTER(c_float), POINTER(POINTER(zn_image))]),
    "zn_diffae_noise": (None, [POINTER(zn_diffae), c_int, c_uint64, POINTER(c_float)]),
    "zn_diffae_imagine": (c_int, [POINTER(zn_diffae), c_int, c_uint64, c_int, POINTER(c_float)]),
    "zn_diffae_move": (c_int, [POINTER(zn_diffae), POINTER(c_float), c_char_p, c_double, POINTER(c_float)]),
    "zn_diffae_goal": (c_int, [POINTER(zn_diffae), POINTER(c_float), c_char_p, c_int, c_int, c_uint64, POINTER(c_float)]),
    "zn_diffae_approach": (None, [POINTER(zn_diffae), POINTER(c_float), POINTER(c_float), c_double, POINTER(c_float)]),
    "zn_diffae_loosen": (c_int, [POINTER(zn_diffae), POINTER(c_float), c_double, c_uint64, POINTER(c_float)]),
    "zn_diffae_edit_by": (c_int, [POINTER(zn_diffae), POINTER(zn_diffae_edit), POINTER(c_float), POINTER(c_float), c_double, POINTER(c_float), POINTER(c_float)]),
    "zn_diffae_edit_steps": (c_int, [POINTER(zn_diffae_edit), POINTER(c_double), c_int]),
    "zn_diffae_edit_clear": (None, [POINTER(zn_diffae_edit)]),
    "zn_diffae_attribute": (c_char_p, [POINTER(zn_diffae), c_int]),
    "zn_diffae_find_attribute": (c_int, [POINTER(zn_diffae), c_char_p, POINTER(c_int)]),
    "zn_diffae_attribute_count": (c_int, [POINTER(zn_diffae)]),
    "zn_diffae_judge": (c_int, [POINTER(zn_diffae), POINTER(c_float), POINTER(c_float)]),
    "zn_diffae_between": (None, [POINTER(zn_diffae), POINTER(c_float), POINTER(c_float), POINTER(c_float), POINTER(c_float), c_double, POINTER(c_float), POINTER(c_float)]),
    "zn_task_name": (c_char_p, [c_int]),
    "zn_restore": (c_int, [POINTER(zn_codec), POINTER(zn_image), c_int, POINTER(POINTER(zn_image))]),
    "zn_upscale": (c_int, [POINTER(zn_codec), POINTER(zn_image), c_int, POINTER(POINTER(zn_image))]),
    "zn_corruption_parse": (c_int, [c_char_p, POINTER(zn_corruption)]),
    "zn_corruption_text": (c_char_p, [zn_corruption, c_char_p]),
    "zn_corruption_task": (c_int, [zn_corruption]),
    "zn_corruption_of_task": (c_int, [c_int, c_int, POINTER(zn_corruption)]),
    "zn_corrupt": (c_int, [POINTER(zn_image), zn_corruption, c_uint64, POINTER(POINTER(zn_image))]),
    "zn_filter": (c_int, [POINTER(zn_image), c_int, c_double, c_int, POINTER(POINTER(zn_image))]),
    "zn_filter_name": (c_char_p, [c_int]),
    "zn_lpips_name": (c_char_p, [c_int]),
    "zn_scorer_new": (c_int, [c_int, POINTER(zn_options), POINTER(POINTER(zn_scorer))]),
    "zn_scorer_compare": (c_int, [POINTER(zn_scorer), POINTER(zn_image), POINTER(zn_image), POINTER(zn_scores)]),
    "zn_scorer_free": (None, [POINTER(zn_scorer)]),
    "zn_eval_plain_name": (c_char_p, [c_int]),
    "zn_eval": (c_int, [POINTER(zn_model), POINTER(zn_eval_options), POINTER(zn_eval_result)]),
    "zn_eval_result_clear": (None, [POINTER(zn_eval_result)]),
    "zn_eval_write": (c_int, [c_char_p, POINTER(zn_eval_result)]),
    "zn_fid": (c_int, [POINTER(zn_fid_options), POINTER(zn_fid_result)]),
    "zn_eval_gates": (c_int, [POINTER(zn_model), POINTER(zn_eval_options), POINTER(zn_gate_result)]),
    "zn_gate_result_clear": (None, [POINTER(zn_gate_result)]),
    "zn_nearest": (c_int, [POINTER(zn_nearest_options), c_int, POINTER(POINTER(zn_image)), POINTER(zn_neighbour), POINTER(POINTER(zn_image))]),
    "zn_trip_name": (c_char_p, [c_int]),
    "zn_diffae_eval": (c_int, [POINTER(zn_model), POINTER(zn_diffae_eval_options), POINTER(zn_diffae_eval_result)]),
    "zn_diffae_eval_clear": (None, [POINTER(zn_diffae_eval_result)]),
    "zn_diffae_is_field": (c_int, [POINTER(zn_diffae)]),
    "zn_diffae_inverts": (c_int, [POINTER(zn_diffae)]),
    "zn_diffae_is_direct": (c_int, [POINTER(zn_diffae)]),
    "zn_field_encode_some": (c_int, [POINTER(zn_diffae), POINTER(zn_image), c_double, c_uint64, POINTER(c_float)]),
    "zn_field_render": (c_int, [POINTER(zn_diffae), POINTER(c_float), c_int, c_uint64, c_int, POINTER(POINTER(zn_image))]),
    "zn_field_colours_at": (c_int, [POINTER(zn_diffae), POINTER(c_float), POINTER(c_float), c_int, c_uint64, c_int, POINTER(c_float)]),
    "zn_field_scatter": (None, [c_uint64, c_int, POINTER(c_float)]),
    "zn_field_write": (c_int, [c_char_p, c_int, POINTER(c_float), POINTER(c_float)]),
    "zn_generator_parts": (c_int, [POINTER(zn_generator_files), zn_generator_part_fn, c_void_p]),
    "zn_generators_visit": (c_int, [zn_generator_folder_fn, c_void_p]),
    "zn_generator_default": (c_int, [c_char_p, c_size_t]),
    "zn_generator_describe": (c_int, [POINTER(zn_generator_files), POINTER(zn_generator_about)]),
    "zn_generator_open": (c_int, [POINTER(zn_generator_files), POINTER(zn_options), POINTER(POINTER(zn_generator))]),
    "zn_generator_free": (None, [POINTER(zn_generator)]),
    "zn_loras_visit": (c_int, [zn_lora_visit_fn, c_void_p]),
    "zn_generator_add_lora": (c_int, [POINTER(zn_generator), c_char_p, c_double]),
    "zn_generator_lora_layers": (None, [POINTER(zn_generator), c_int, POINTER(c_int), POINTER(c_int)]),
    "zn_generation_check": (c_int, [POINTER(zn_generation)]),
    "zn_generate": (c_int, [POINTER(zn_generator), POINTER(zn_generation), POINTER(POINTER(zn_image))]),
    "zn_generate_batch": (c_int, [POINTER(zn_generator), POINTER(POINTER(zn_generation)), c_int, POINTER(POINTER(zn_image))]),
    "zn_generator_defaults": (None, [POINTER(zn_generator), POINTER(zn_generation_defaults)]),
    "zn_generator_calibrate": (c_int, [POINTER(zn_generator), POINTER(zn_generation), POINTER(zn_calibration)]),
    "zn_generator_report": (None, [POINTER(zn_generator), POINTER(zn_generation_report)]),
    "zn_generator_report_of": (None, [POINTER(zn_generator), c_int, POINTER(zn_generation_report)]),
    "zn_generator_plan": (c_int, [POINTER(zn_generator), POINTER(zn_generation), POINTER(c_char_p)]),
    "zn_published_at": (POINTER(zn_published), [c_int]),
    "zn_published_find": (POINTER(zn_published), [c_char_p]),
    "zn_download": (c_int, [POINTER(zn_download_options), POINTER(zn_download_result)]),
    "zn_models_folder": (c_int, [c_char_p, c_size_t]),
    "zn_sample": (c_int, [POINTER(zn_model), POINTER(zn_sample_options), c_int, POINTER(POINTER(zn_image))]),
    "zn_train": (c_int, [POINTER(zn_train_options), POINTER(zn_train_result)]),
    "zn_train_check": (c_int, [POINTER(zn_train_options)]),
    "zn_train_preset": (c_char_p, [c_int, POINTER(c_char_p)]),
    "zn_train_recipe": (c_int, [c_char_p, POINTER(c_char_p), POINTER(c_char_p)]),
    "zn_distill": (c_int, [POINTER(zn_distill_options), POINTER(zn_distill_result)]),
    "zn_distill_student": (c_char_p, [c_int, POINTER(c_char_p)]),
    "zn_distill_recipe": (c_int, [c_char_p, POINTER(c_char_p), POINTER(c_char_p)]),
    "zn_video_new": (c_int, [POINTER(zn_model), POINTER(zn_options), POINTER(POINTER(zn_video))]),
    "zn_video_free": (None, [POINTER(zn_video)]),
    "zn_video_use_both": (None, [POINTER(zn_video)]),
    "zn_video_hold": (None, [POINTER(zn_video), c_size_t]),
    "zn_video_encode": (c_int, [POINTER(zn_video), POINTER(zn_image), POINTER(POINTER(zn_latent))]),
    "zn_video_encode_end": (c_int, [POINTER(zn_video), POINTER(POINTER(zn_latent))]),
    "zn_video_decode": (c_int, [POINTER(zn_video), POINTER(zn_latent), c_int, zn_video_picture_fn, c_void_p]),
    "zn_video_decode_end": (None, [POINTER(zn_video)]),
    "zn_video_plan": (c_char_p, [POINTER(zn_video), c_int]),
    "zn_video_precision_share": (c_double, [POINTER(zn_video)]),
    "zn_video_retains_16": (c_int, [POINTER(zn_video)]),
    "zn_dtype_name": (c_char_p, [c_int]),
    "zn_dtype_size": (c_size_t, [c_int]),
    "zn_dtype_block": (c_size_t, [c_int]),
    "zn_weights_open": (c_int, [c_char_p, POINTER(POINTER(zn_weights))]),
    "zn_weights_open_memory": (c_int, [c_void_p, c_size_t, c_char_p, POINTER(POINTER(zn_weights))]),
    "zn_weights_close": (None, [POINTER(zn_weights)]),
    "zn_weights_format": (c_char_p, [POINTER(zn_weights)]),
    "zn_weights_count": (c_int64, [POINTER(zn_weights)]),
    "zn_weights_at": (POINTER(zn_weight), [POINTER(zn_weights), c_int64]),
    "zn_weights_find": (POINTER(zn_weight), [POINTER(zn_weights), c_char_p]),
    "zn_weights_metadata_count": (c_int64, [POINTER(zn_weights)]),
    "zn_weights_metadata_at": (c_char_p, [POINTER(zn_weights), c_int64, POINTER(c_char_p)]),
    "zn_weights_metadata": (c_char_p, [POINTER(zn_weights), c_char_p]),
    "zn_weights_network": (c_char_p, [POINTER(zn_weights), c_char_p, c_size_t]),
    "zn_weights_save": (c_int, [POINTER(zn_weights), c_char_p, c_int, c_int]),
    "zn_weights_join": (c_int, [c_char_p, c_char_p, c_int, c_int]),
    "zn_weights_quantise": (c_int, [c_char_p, c_char_p, POINTER(zn_quantisation)]),
    "zn_file_sha256": (c_int, [c_char_p, c_char_p]),
    "zn_version": (c_char_p, []),
}

"""ai.onnx.ml: preparing features: maps, categories, labels, scaling."""

from __future__ import annotations

import math

from onemodel.ops.element import code_of
from onemodel.ops.ml_linear import ML, samples
from onemodel.ops.registry import operator
from onemodel.ops.text import is_text, text

# Choosing and putting together


@operator("ArrayFeatureExtractor", since=1, domain=ML, host=("y",), widen=False)
def array_feature_extractor(x, y, /, *, xp):
    """The elements of the last axis at the indices ``y``, in order; a vector gives a matrix of one row."""
    if x.ndim == 0:
        raise ValueError("X is a scalar; it must have at least one axis")
    indices = [int(index) for index in y.reshape(-1)]
    if any(not 0 <= index < x.shape[-1] for index in indices):
        raise IndexError(f"Y holds an index that is not in [0, {x.shape[-1] - 1}]: {min(indices)} to {max(indices)}")
    taken = xp.gather(x, xp.as_index(indices), x.ndim - 1)
    return xp.reshape(taken, (1, -1)) if x.ndim == 1 else taken


@operator("FeatureVectorizer", since=1, domain=ML)
def feature_vectorizer(*x, inputdimensions=None, xp):
    """All inputs beside each other, each cut or filled up with zeros to its number of columns; vectors are one row."""
    if any(part.ndim not in (1, 2) for part in x):
        raise ValueError(f"inputs of the shapes {[part.shape for part in x]} must be matrices or vectors")
    parts = [xp.reshape(part, (1, -1)) if part.ndim == 1 else part for part in x]
    sizes = [part.shape[1] for part in parts] if inputdimensions is None else inputdimensions
    if len(sizes) != len(parts) or min(sizes) < 0 or len({part.shape[0] for part in parts}) != 1:
        raise ValueError(
            f"inputdimensions {list(sizes)} must be one number from 0 on for each of the inputs of the shapes "
            f"{[part.shape for part in x]}, which must have as many rows as each other"
        )
    columns = []
    for part, size in zip(parts, sizes, strict=True):
        kept = xp.astype(part[:, : min(size, part.shape[1])], xp.float32)
        columns.append(xp.pad(kept, [(0, 0), (0, max(size - part.shape[1], 0))]))
    return xp.concat(columns, axis=1)


# Maps


def _decimal(value):
    return value if isinstance(value, str) else f"{float(value):.6f}"


_CASTS = {
    "TO_FLOAT": ("tensor(float)", float),
    "TO_INT64": ("tensor(int64)", int),
    "TO_STRING": ("tensor(string)", str),
}


@operator(
    "CastMap",
    since=1,
    domain=ML,
    types=lambda types, attributes: (_CASTS.get(attributes["cast_to"], ("tensor(float)",))[0],),
)
def cast_map(x, /, *, cast_to="TO_FLOAT", map_form="DENSE", max_map=1, xp):
    """The values of a map as one row, in the order of its keys, or each at the column that its key says."""
    if cast_to not in _CASTS or map_form not in ("DENSE", "SPARSE"):
        raise ValueError(
            f"cast_to {cast_to!r} must be TO_FLOAT, TO_STRING or TO_INT64, and map_form {map_form!r} DENSE or SPARSE"
        )
    if map_form == "SPARSE" and any(not 0 <= key < max_map for key in x):
        raise IndexError(f"the map has keys from {min(x)} to {max(x)}; they must be in [0, {max_map - 1}]")
    keys = sorted(x) if map_form == "DENSE" else range(max_map)
    if cast_to == "TO_STRING":
        return text([_decimal(x[key]) if key in x else "0.f" for key in keys], (1, -1))
    value_type, parse = _CASTS[cast_to]
    code = code_of(value_type)
    if any(isinstance(x[key], str) for key in x):
        values = [parse(x[key]) if key in x else 0 for key in keys]
        return xp.reshape(xp.asarray(values, dtype=xp.onnx_dtype(code)), (1, -1))
    values = [float(x[key]) if key in x else 0.0 for key in keys]
    return xp.convert(xp.reshape(xp.asarray(values, dtype=xp.float32), (1, -1)), code)


@operator(
    "DictVectorizer",
    since=1,
    domain=ML,
    types=lambda types, attributes: (None if types[0] is None else types[0].partition(",")[2][:-1],),
)
def dict_vectorizer(x, /, *, int64_vocabulary=None, string_vocabulary=None, xp):
    """For each word of the vocabulary its value in the map, or 0; other keys are left out."""
    if bool(int64_vocabulary) == bool(string_vocabulary):
        raise ValueError("one, and only one, of the two vocabularies must be given")
    return _of_words(x, int64_vocabulary or string_vocabulary, xp)


def _of_words(mapping, words, xp):
    first = next(iter(mapping.values()), None)
    if isinstance(first, str):
        return text([mapping.get(word, "") for word in words], -1)
    dtype = xp.float32 if first is None else xp.onnx_dtype(_number_code(first))
    return xp.asarray([mapping.get(word, 0) for word in words], dtype=dtype)


def _number_code(value):
    """The ONNX type of a map's value: float, double or int64."""
    if isinstance(value, int) or getattr(value, "dtype", None) == "int64":
        return 7
    return 1 if getattr(value, "dtype", None) == "float32" else 11


@operator(
    "ZipMap",
    since=1,
    domain=ML,
    types=lambda types, attributes: (
        f"seq(map({'int64' if attributes['classlabels_int64s'] else 'string'},tensor(float)))",
    ),
)
def zip_map(x, /, *, classlabels_int64s=None, classlabels_strings=None, xp):
    """A map from class label to value for each row."""
    if bool(classlabels_int64s) == bool(classlabels_strings):
        raise ValueError("one, and only one, of the two attributes with class labels must be given")
    labels = classlabels_int64s or classlabels_strings
    if x.ndim not in (1, 2) or x.shape[-1] != len(labels):
        raise ValueError(f"X of shape {x.shape} must have {len(labels)} columns, one for each class label")
    rows = xp.to_host(xp.reshape(x, (-1, len(labels))))
    return [dict(zip(labels, row, strict=True)) for row in rows]


# Categories and labels


@operator(
    "CategoryMapper",
    since=1,
    domain=ML,
    types=lambda types, attributes: (
        "tensor(int64)" if types[0] == "tensor(string)" else types[0] and "tensor(string)",
    ),
)
def category_mapper(x, /, *, cats_int64s=None, cats_strings=None, default_int64=-1, default_string="_Unused", once, xp):
    """The integer that belongs to each string, or the string that belongs to each integer."""
    numbers, words = cats_int64s or (), cats_strings or ()
    if is_text(x):
        return _looked_up(x, words, numbers, default_int64, once, xp)
    return _looked_up(x, numbers, words, default_string, once, xp)


@operator("LabelEncoder", since=4, domain=ML, types=lambda types, attributes: (_encoded_type(attributes),))
def label_encoder(
    x,
    /,
    *,
    default_float=-0.0,
    default_int64=-1,
    default_string="_Unused",
    default_tensor=None,
    keys_floats=None,
    keys_int64s=None,
    keys_strings=None,
    keys_tensor=None,
    values_floats=None,
    values_int64s=None,
    values_strings=None,
    values_tensor=None,
    once,
    xp,
):
    """The value at the last key that equals each element, else the default; a NaN key stands for every NaN."""
    keys = _one("keys", keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _one("values", values_floats, values_int64s, values_strings, values_tensor)
    if default_tensor is not None:
        default = default_tensor.reshape(-1)[0].item() if default_tensor.dtype.kind != "O" else default_tensor.item()
    elif values_tensor is not None:
        default = {"O": "_Unused", "f": -0.0}.get(values_tensor.dtype.kind, -1)
    elif values_strings:
        default = default_string
    else:
        default = default_int64 if values_int64s else default_float
    dtype = xp.float32 if values_floats else xp.int64
    if values_tensor is not None and values_tensor.dtype.kind != "O":
        dtype = xp.from_host(values_tensor).dtype
    return _looked_up(x, keys, values, default, once, xp, dtype)


@operator("LabelEncoder", since=2, domain=ML, types=lambda types, attributes: (_encoded_type(attributes),))
def label_encoder_of_bits(
    x,
    /,
    *,
    default_float=-0.0,
    default_int64=-1,
    default_string="_Unused",
    keys_floats=None,
    keys_int64s=None,
    keys_strings=None,
    values_floats=None,
    values_int64s=None,
    values_strings=None,
    once,
    xp,
):
    """Before version 4 float keys are compared bit by bit, so that 0 and -0 differ."""
    keys = _one("keys", keys_floats, keys_int64s, keys_strings)
    values = _one("values", values_floats, values_int64s, values_strings)
    if keys_floats:
        bits = xp.bitcast(xp.asarray(keys_floats, dtype=xp.float32), xp.int32)
        keys, x = [int(key) for key in xp.to_host(bits)], xp.bitcast(x, xp.int32)
    default = default_string if values_strings else default_int64 if values_int64s else default_float
    return _looked_up(x, keys, values, default, once, xp, xp.float32 if values_floats else xp.int64)


@operator(
    "LabelEncoder",
    since=1,
    domain=ML,
    types=lambda types, attributes: (
        "tensor(int64)" if types[0] == "tensor(string)" else types[0] and "tensor(string)",
    ),
)
def label_encoder_of_classes(x, /, *, classes_strings=None, default_int64=-1, default_string="_Unused", once, xp):
    """Before version 2: the place of each string in the list, or the string at each place."""
    words = classes_strings or ()
    places = tuple(range(len(words)))
    if is_text(x):
        return _looked_up(x, words, places, default_int64, once, xp)
    return _looked_up(x, places, words, default_string, once, xp)


def _encoded_type(attributes):
    """The type of LabelEncoder's output, which the values' attribute tells."""
    if attributes.get("values_tensor") is not None:
        name = attributes["values_tensor"].dtype.name
        return f"tensor({ {'object': 'string', 'float32': 'float', 'float64': 'double'}.get(name, name) })"
    for kind, name in (("strings", "string"), ("int64s", "int64"), ("floats", "float")):
        if attributes[f"values_{kind}"]:
            return f"tensor({name})"
    return None


def _one(what, *attributes):
    """The one attribute that is given, as a list of numbers or strings."""
    given = [attribute for attribute in attributes if attribute is not None and len(attribute)]
    if len(given) != 1:
        raise ValueError(f"{len(given)} of the {what}_* attributes are given; it must be exactly one")
    return given[0] if isinstance(given[0], tuple) else given[0].reshape(-1).tolist()


def _looked_up(x, keys, values, default, once, xp, dtype=None):
    """``values[i]`` where x is ``keys[i]`` (the last such i), else ``default``."""
    if len(keys) != len(values):
        raise ValueError(f"there are {len(keys)} keys for {len(values)} values")
    if bool(keys) and isinstance(keys[0], str) != is_text(x):
        raise TypeError(f"keys such as {keys[0]!r} do not fit X of type {x.dtype}")
    if is_text(x):
        table = once(lambda: dict(zip(keys, range(len(keys)), strict=True)))
        places = xp.asarray([table.get(item, len(keys)) for item in x.reshape(-1)], dtype=xp.int64)
    else:
        places = _places(xp.reshape(x, (-1,)), keys, once, xp)
    if isinstance(default, str):
        return text([*values, default], -1)[xp.to_host(places)].reshape(x.shape)
    table = xp.asarray([*values, default], dtype=xp.int64 if dtype is None else dtype)
    return xp.reshape(xp.take(table, places), x.shape)


def _places(x, keys, once, xp):
    """For each number the last i with ``keys[i]`` equal to it, else the number of keys; NaN equals NaN."""
    if not keys:
        return xp.zeros(x.shape, dtype=xp.int64)

    def prepare(xp):
        last = {key: i for i, key in enumerate(keys) if key == key}
        ordered = sorted(last)
        nan = max((i for i, key in enumerate(keys) if key != key), default=len(keys))
        return ordered, [last[key] for key in ordered], nan

    ordered, found, nan = once(prepare, xp)
    floats = xp.isdtype(x.dtype, "real floating")
    places = xp.full(x.shape, len(keys), dtype=xp.int64)
    if ordered:
        known = xp.asarray(ordered, dtype=x.dtype)
        place = xp.searchsorted(known, xp.where(xp.isnan(x), xp.constant(0, x), x) if floats else x)
        place = xp.where(place < len(ordered), place, len(ordered) - 1)
        hit = xp.take(known, place) == x
        places = xp.where(hit, xp.take(xp.asarray(found, dtype=xp.int64), place), places)
    return xp.where(xp.isnan(x), nan, places) if floats else places


@operator("OneHotEncoder", since=1, domain=ML)
def one_hot_encoder(x, /, *, cats_int64s=None, cats_strings=None, zeros=1, once, xp):
    """A new last axis with 1 at the place of each element's category, else 0; numbers are cut to integers first."""
    if bool(cats_int64s) == bool(cats_strings):
        raise ValueError("one, and only one, of cats_int64s and cats_strings must be given")
    categories = cats_int64s or cats_strings
    x = x if is_text(x) else xp.convert(x, 7)
    places = _looked_up(x, categories, tuple(range(len(categories))), len(categories), once, xp)
    if not zeros:
        xp.refuse(places == len(categories), ValueError, "X holds an element of no category, and zeros is 0")
    hot = xp.expand_dims(places, axis=places.ndim) == xp.arange(len(categories), dtype=xp.int64)
    return xp.astype(hot, xp.float32)


# Scaling and missing values


@operator("Binarizer", since=1, domain=ML, elementwise=True)
def binarizer(x, /, *, threshold=0.0, xp):
    """1 where x is above the threshold, else 0."""
    if xp.isdtype(x.dtype, "integral") and not math.isnan(threshold):
        limits = xp.iinfo(x.dtype)
        if not limits.min <= threshold < limits.max:
            return xp.full_like(x, int(threshold < limits.min))
        threshold = math.floor(threshold)
    elif math.isnan(threshold):
        return xp.zeros_like(x)
    return xp.astype(x > xp.constant(threshold, x), x.dtype)


@operator("Imputer", since=1, domain=ML)
def imputer(
    x,
    /,
    *,
    imputed_value_floats=None,
    imputed_value_int64s=None,
    replaced_value_float=0.0,
    replaced_value_int64=0,
    xp,
):
    """Elements that equal the replaced value (NaN equals NaN) become the imputed one of their feature."""
    floats = xp.isdtype(x.dtype, "real floating")
    imputed, replaced = (
        (imputed_value_floats, replaced_value_float) if floats else (imputed_value_int64s, replaced_value_int64)
    )
    if not imputed:
        raise ValueError(f"X is {x.dtype}; imputed_value_{'floats' if floats else 'int64s'} must be given")
    new = _per_feature(imputed, "imputed values", x, xp)
    missing = xp.isnan(x) if replaced != replaced else x == xp.constant(replaced, x)
    return xp.where(missing, new, x)


@operator("Scaler", since=1, domain=ML)
def scaler(x, /, *, offset=None, scale=None, xp):
    """(x - offset) * scale, one of each for all features or one for each."""
    wide = x if x.dtype == xp.float32 else xp.astype(x, xp.float64)
    if offset:
        wide = wide - _per_feature(offset, "offsets", wide, xp)
    if scale:
        wide = wide * _per_feature(scale, "scales", wide, xp)
    return xp.astype(wide, xp.float32)


def _per_feature(values, what, x, xp):
    if x.ndim == 0 or len(values) not in (1, x.shape[-1]):
        raise ValueError(f"there are {len(values)} {what} for X of shape {x.shape}; it must be one, or one per feature")
    return xp.asarray(values, dtype=x.dtype)


@operator("Normalizer", since=1, domain=ML)
def normalizer(x, /, *, norm="MAX", xp):
    """Each row over its greatest element, the sum of its sizes or its Euclidean length; over 0 it stays as it is."""
    wide = samples(x, xp)
    if norm not in ("MAX", "L1", "L2"):
        raise ValueError(f"norm {norm!r} is not MAX, L1 or L2")
    if wide.shape[1] == 0:
        return xp.astype(x, xp.float32)
    if norm == "MAX":
        size = xp.max(wide, axis=1, keepdims=True)
    elif norm == "L1":
        size = xp.sum(xp.abs(wide), axis=1, keepdims=True)
    else:
        size = xp.sqrt(xp.sum(wide * wide, axis=1, keepdims=True))
    result = wide / xp.where(size == 0, xp.constant(1, size), size)
    return xp.reshape(xp.astype(result, xp.float32), x.shape)
